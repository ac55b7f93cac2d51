// SPDX-License-Identifier: Apache-2.0
// The facade of the cache: bytes of an entry, from the fastest tier that has them.
//
//   auto store = Store::open({.source = "/data/imagenet", .ram_bytes = 8 << 30});
//   auto view = (*store)->read(entry);            // blocks; one fetch however many ask (single flight)
//   use(view->bytes());                           // pinned in memory until the view dies
//
// Tiers: RAM (budgeted), then disk tiers in the order given, then the source. The source is never written to.
// Thread-safety: every function from any thread; callbacks run on an I/O thread of the store and must not block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/io/engine.h"

namespace headrace::cache {

enum class TierKind : std::uint8_t { kRam, kSsd, kHdd, kSource };

struct TierOptions {
  TierKind kind = TierKind::kSsd;  // kSsd or kHdd
  std::filesystem::path path;      // folder of the tier; made (0700) when missing
  std::uint64_t budget_bytes = 0;
};

struct StoreOptions {
  std::filesystem::path source;
  int source_fd = -1;  // an open directory to use instead of the path (kept, not owned); the path then only names it
  CatalogOptions catalog = {};
  std::filesystem::path catalog_file;  // where the catalog is saved and looked for; empty: not saved
  std::uint64_t ram_bytes = 0;         // bytes that may lie in RAM, pinned views included; 0: nothing is kept
  std::vector<TierOptions> tiers;      // fastest first
  io::EngineOptions engine = {};
};

// Content pinned in memory. Move-only; unpins on destruction. May outlive nothing: destroy before the Store.
class View {
 public:
  View() = default;
  ~View();
  View(View&& other) noexcept;
  View& operator=(View&& other) noexcept;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] TierKind served_from() const { return served_from_; }

 private:
  friend class StoreImpl;
  std::span<const std::byte> bytes_;
  TierKind served_from_ = TierKind::kSource;
  std::shared_ptr<void> pin_;
};

struct TierStats {
  TierKind kind = TierKind::kSource;
  std::string path;
  std::uint64_t budget_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t samples = 0;        // entries held
  std::uint64_t hits = 0;           // reads served from here
  std::uint64_t hit_bytes = 0;
  std::uint64_t writes = 0;         // records or buffers admitted
  std::uint64_t write_bytes = 0;
  std::uint64_t evictions = 0;
  std::uint64_t errors = 0;
  std::uint64_t corrupt = 0;        // records dropped because a checksum or identity failed
  std::string state;                // "ok", or why admission stopped: "full", "read-only", "dropped: ..."
};

struct StoreStats {
  std::vector<TierStats> tiers;     // RAM, disk tiers, source
  std::uint64_t reads = 0;          // read() and read_async() calls
  std::uint64_t shared_fetches = 0; // reads that joined a fetch already under way
  std::uint64_t failures = 0;       // reads that ended in an error
  io::EngineInfo engine;
};

using ReadCallback = std::function<void(Result<View>)>;

class Store {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(StoreOptions options);
  virtual ~Store() = default;  // ends all reads in flight (kCancelled), joins its threads

  [[nodiscard]] virtual const Catalog& catalog() const = 0;

  // The whole file. Errors: as io::Operation, kStale when the file is no longer as catalogued.
  [[nodiscard]] virtual Result<View> read(EntryId entry) = 0;
  virtual void read_async(EntryId entry, ReadCallback done) = 0;
  // Part of a file, for files too large to hold whole (block-wise cached); short only at end of file.
  virtual void read_range_async(EntryId entry, std::uint64_t offset, std::uint64_t length, ReadCallback done) = 0;

  // Fetches into the tiers ahead of need. `keep_in_ram` asks the RAM tier to hold it until drop() or the budget forbids.
  virtual void prefetch(EntryId entry, bool keep_in_ram, std::function<void(Status)> done) = 0;
  // Takes an entry out of the RAM tier (not out of disk tiers) once no view pins it.
  virtual void drop(EntryId entry) = 0;
  // Ensures that a disk tier holds the entry; kNoSpace when all are full, success at once when one has it.
  virtual void warm(EntryId entry, std::function<void(Status)> done) = 0;
  // Writes what disk tiers hold back: pending records, index checkpoints; syncs.
  [[nodiscard]] virtual Status flush() = 0;

  [[nodiscard]] virtual StoreStats stats() const = 0;
};

}  // namespace headrace::cache
