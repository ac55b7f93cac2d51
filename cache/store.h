// SPDX-License-Identifier: Apache-2.0
// The facade of the cache: bytes of an entry, from the fastest tier that has them.
//
//   auto store = Store::open({.source = "/data/imagenet", .ram_bytes = 8 << 30});
//   auto view = (*store)->read(entry);            // blocks; one fetch however many ask (single flight)
//   use(view->bytes());                           // pinned in memory until the view dies
//
// Tiers: RAM (budgeted), then disk tiers in the order given, then the source. The source is never written to.
// Files of more than 8 MiB are held in chunks of 4 MiB (cache/catalog/chunk.h); read() puts them together.
//
// Memory: content in RAM never exceeds `ram_bytes`, views and fetches in flight included. A read that finds the budget
// full of pinned views waits until enough of them are gone, at most 30 s, then ends with kBusy; reads for now go before
// reads ahead. One file larger than the budget is kNoSpace. Beside content a sample costs about 200 bytes.
//
// Thread-safety: every function from any thread, until destruction begins. A callback runs exactly once: at once on the
// calling thread when the content is in RAM (ours or the page cache), else on an I/O thread of the store; it must not
// block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/cache/order.h"
#include "headrace/cache/tier.h"
#include "headrace/cache/view.h"
#include "headrace/io/engine.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cache {

struct StoreOptions {
  std::filesystem::path source;
  int source_fd = -1;  // an open directory to use instead of the path (not owned, needed until open() returns)
  // The path leads elsewhere by now (a mount lies over it). Else it is where a source is looked for that was unmounted.
  bool source_path_covered = false;
  CatalogOptions catalog = {};
  std::filesystem::path catalog_file;  // where the catalog is saved and looked for; empty: not saved
  // Bytes of content that may lie in RAM. 0: no limit on views, but nothing stays once its last view is gone, save
  // 32 MiB of what read_range_async() is working through.
  std::uint64_t ram_bytes = 0;
  std::vector<TierOptions> tiers;  // fastest first
  io::EngineOptions engine = {};
  // Whether reads ahead are sorted by where the files lie, as is good for a hard disk. Not given: where the kernel says
  // that it is one, and its first reads were as slow.
  std::optional<bool> source_rotational;
  // For tests: what the source and the disk tiers read and write with, instead of `engine`.
  std::function<Result<std::unique_ptr<io::Engine>>()> make_source_engine;
  std::function<Result<std::unique_ptr<io::Engine>>()> make_tier_engine;
};

// How near an epoch came to what no cache of this size can do better.
struct EpochReads {
  std::uint64_t epoch = 0;
  std::uint64_t source_reads = 0;
  // The files of the epoch without those that fit, the smallest first: N - C where sizes are equal. A bound, not a
  // forecast: not reached in the first epoch, nor where epochs differ and MIN itself needs more.
  std::uint64_t minimum_source_reads = 0;
};

struct StoreStats {
  std::vector<TierStats> tiers;      // RAM, disk tiers, source
  std::uint64_t reads = 0;           // read() and read_async() calls
  std::uint64_t shared_fetches = 0;  // reads that joined a fetch already under way
  std::uint64_t failures = 0;        // reads that ended in an error
  io::EngineInfo engine;
  std::optional<EpochReads> epoch_reads;  // of the epoch being read, while an order is followed
};

// Somebody who reads along an order and tells the store so, for as long as this lives.
class Following {
 public:
  virtual ~Following() = default;
  virtual void enter(std::uint64_t epoch) = 0;  // blocks while the next uses of samples are drawn
};

struct FollowOptions {
  std::uint64_t epoch = 0;
  std::uint64_t held_bytes = 0;  // what the reader can hold beside the store's tiers
};

// How soon a read is needed, and what becomes of its content in RAM.
enum class ReadHint : std::uint8_t {
  kNow,
  kOnce,      // now, by one who keeps a copy: goes with the last view, unless somebody else has asked for it too
  kOnceHere,  // the same, and the caller may wait: where the source is a local disk that does not seek, it reads itself
  kAhead,
  kAheadAndKeep,  // stays until drop(), as far as the budget permits
};

class Store {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(const StoreOptions& options);
  // Ends all reads in flight (kCancelled) and joins its threads. Every view must be gone.
  virtual ~Store() = default;

  [[nodiscard]] virtual const Catalog& catalog() const = 0;
  // The directory that the source is read from now; after the source was unmounted and mounted anew it is another.
  [[nodiscard]] virtual std::shared_ptr<const io::UniqueFd> source_directory() const = 0;

  // The whole file. Errors: kInvalidArgument (not a file), kNotFound (gone), kStale (shorter than catalogued), kBusy
  // and kNoSpace as above, else what the source said.
  [[nodiscard]] virtual Result<View> read(EntryId entry) = 0;
  virtual void read_async(EntryId entry, ReadCallback done, ReadHint hint = ReadHint::kNow) = 0;
  // Part of a file; of a chunked one only the chunks touched are fetched, and the next ones when reads go in sequence.
  // Short only at end of file.
  virtual void read_range_async(EntryId entry, std::uint64_t offset, std::uint64_t length, ReadCallback done) = 0;

  // As read_async() with kAhead or kAheadAndKeep, without a view. Nothing to do when no tier could hold it.
  virtual void prefetch(EntryId entry, bool keep_in_ram, std::function<void(Status)> done) = 0;
  // Takes an entry out of the RAM tier (not out of disk tiers) once no view pins it.
  virtual void drop(EntryId entry) = 0;
  // Ends what kAheadAndKeep asked for: the content stays until its place is needed.
  virtual void unkeep(EntryId entry) = 0;
  // What the RAM tier may hold from now on; what no longer fits goes at once, views with their end. For a store that
  // was opened with a RAM budget; not 0.
  virtual void set_ram_bytes(std::uint64_t bytes) = 0;
  // The file has changed: what any tier holds of it is not served any more, to reads that begin after this returned.
  virtual void set_identity(EntryId entry, const Identity& identity) = 0;
  // The file is gone: reads that begin after this returned end with kNotFound, until set_identity() brings it back.
  virtual void set_vanished(EntryId entry) = 0;
  // Ensures that a disk tier holds the entry; kNoSpace when all are full, success at once when one has it.
  virtual void warm(EntryId entry, std::function<void(Status)> done) = 0;
  // True when disk tiers hold all of a file as it is known to be now: warm() would have nothing to do.
  [[nodiscard]] virtual bool is_on_disk(EntryId entry) const = 0;
  // What is read from now on follows the order, which outlives the Following: disk tiers then hold what is needed next.
  [[nodiscard]] virtual std::unique_ptr<Following> follow(const Order& order, const FollowOptions& options) = 0;
  // Writes what disk tiers hold back: pending records, index checkpoints; syncs.
  [[nodiscard]] virtual Status flush() = 0;

  [[nodiscard]] virtual StoreStats stats() const = 0;

 protected:
  Store() = default;
};

}  // namespace headrace::cache
