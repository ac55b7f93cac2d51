// SPDX-License-Identifier: Apache-2.0
// The facade of the cache: bytes of an entry, from the fastest tier that has them.
//
//   auto store = Store::open({.source = "/data/imagenet", .ram_bytes = 8 << 30});
//   auto view = (*store)->read(entry);            // blocks; one fetch however many ask (single flight)
//   use(view->bytes());                           // pinned in memory until the view dies
//
// Tiers: RAM (budgeted), then disk tiers in the order given, then what the nodes of a job share, then the source, which
// is never written to. Files of more than 8 MiB are held in chunks of 4 MiB (cache/chunk.h); read() puts them together.
//
// Memory: content in RAM never exceeds `ram_bytes`. This counts views and what is on its way. Where they fill the
// budget, a read waits until enough is gone. No set of reads makes each other wait for ever. Where callers hold all of
// it in views, and no read gets on for 30 s, those that wait end with kBusy. Reads for now go before reads ahead. A
// file that does not fit into the budget is kNoSpace; one in chunks takes one chunk (4 MiB) more than its size while it
// is read. Beside content a sample costs about 200 bytes.
//
// Thread-safety: every function from any thread, until destruction begins. A callback runs exactly once and must not
// block. It runs at once on the calling thread where the content is in RAM (ours or the page cache), else on an I/O
// thread of the store. Ownership: views must be gone before the store is.
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
#include "headrace/cache/following.h"
#include "headrace/cache/object_store.h"
#include "headrace/cache/order.h"
#include "headrace/cache/revalidate.h"
#include "headrace/cache/tier.h"
#include "headrace/cache/view.h"
#include "headrace/io/engine.h"

namespace headrace::cache {

struct StoreOptions {
  std::filesystem::path source;    // a folder, or a bucket: s3://BUCKET/PREFIX
  ObjectStoreOptions bucket = {};  // how a bucket is reached; its name and prefix are those of `source`
  int source_fd = -1;  // an open directory to use instead of the path (not owned, needed until open() returns)
  // True: the path leads elsewhere by now (a mount lies over it). False: a source that was unmounted is looked for
  // there.
  bool source_path_covered = false;
  CatalogOptions catalog = {};
  std::filesystem::path catalog_file;  // where the catalog is saved and looked for; empty: not saved
  // The saved catalog of a large bucket is used as it is, without a listing: the caller compares it afterwards (a
  // Refresher does). What find_changes() lists is saved for the next start.
  bool catalog_may_be_old = false;
  // How many objects of a bucket are listed so far, while it is opened; on the thread that opens it, often.
  std::function<void(std::uint64_t objects)> on_listing = {};
  int catalog_fd = -1;  // a saved catalog that is used instead, whatever the source holds by now (not owned)
  // Bytes of content that may lie in RAM. 0: views have no limit, but content goes with its last view. Only of what
  // read_range_async() works through, 32 MiB stay.
  std::uint64_t ram_bytes = 0;
  std::vector<TierOptions> tiers;  // fastest first; with `catalog_fd`, a busy one is attached once it is free
  SharedTierOptions shared;        // between the disk tiers and the source
  io::EngineOptions engine = {};
  // Whether reads ahead are sorted by where the files lie, as is good for a hard disk. Not given: they are sorted where
  // the kernel says that the source is one, and its first reads were as slow.
  std::optional<bool> source_rotational;
  // For tests: what the source and the disk tiers read and write with, instead of `engine`.
  std::function<Result<std::unique_ptr<io::Engine>>()> make_source_engine;
  std::function<Result<std::unique_ptr<io::Engine>>()> make_tier_engine;
};

struct StoreStats {
  std::vector<TierStats> tiers;      // RAM, disk tiers, the shared one if there is one, source
  std::vector<PeerStats> peers;      // of the shared tier
  std::uint64_t reads = 0;           // read() and read_async() calls
  std::uint64_t shared_fetches = 0;  // reads of what was on its way already
  std::uint64_t failures = 0;        // reads that ended in an error
  io::EngineInfo engine;
  std::optional<ObjectStoreStats> bucket;  // where the source is one
  std::optional<EpochReads> epoch_reads;   // of the epoch being read, while an order is followed
};

// The catalog that Store::open() would begin with, for who reads nothing. Of the options, those count that name the
// source and its catalog. Errors: as open_catalog() of a folder; of a bucket, what reaching and listing it ends with.
[[nodiscard]] Result<Catalog> open_catalog(const StoreOptions& options);

class Store {
 public:
  // Errors: those of Catalog::scan() or of reaching and listing a bucket, of opening the engine and of opening a tier.
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(const StoreOptions& options);
  // Ends all reads that are under way (kCancelled) and joins its threads. Every view must be gone.
  virtual ~Store() = default;

  [[nodiscard]] virtual const Catalog& catalog() const = 0;
  // What the entry is known to be now: as catalogued, or what was found since. Errors: kInvalidArgument (no such
  // entry), kNotFound (it has vanished).
  [[nodiscard]] virtual Result<Identity> identity(EntryId entry) const = 0;
  // Mode and owner: as catalogued, or what set_attributes() said since.
  [[nodiscard]] virtual AttributeClass attributes(EntryId entry) const = 0;
  // Whether more than mode and owner says who may read the entry in the source; false of one that is gone. nullopt: the
  // source does not tell now. Blocks.
  [[nodiscard]] virtual std::optional<bool> has_acl(EntryId entry) const = 0;
  // Compares the catalog with the source, every file. A catalog that is made of it (RevalidateOptions::next) is saved
  // for the next start. Errors: as cache::find_changes(). Blocks.
  [[nodiscard]] virtual Result<CatalogChanges> find_changes(const RevalidateOptions& options) const = 0;

  // The whole file, all of one version. Errors: kInvalidArgument (not a file), kNotFound (gone), kStale (it has
  // changed, and its mode or owner with it, or it changes too fast to be read), kBusy and kNoSpace as above, else what
  // the source said.
  [[nodiscard]] virtual Result<View> read(EntryId entry) = 0;
  virtual void read_async(EntryId entry, ReadCallback done, ReadHint hint = ReadHint::kNow) = 0;
  // Part of a file. Of a chunked file what is asked for is read, in whole pages; chunks, and the next ones, where reads
  // go in sequence (README.md: ranges). Fewer bytes than asked for: the file ends there.
  virtual void read_range_async(EntryId entry, std::uint64_t offset, std::uint64_t length, ReadCallback done,
                                ReadHint hint = ReadHint::kNow) = 0;

  // Somebody waits now for reads ahead of the entry that are under way. Of no effect where there are none.
  virtual void hurry(EntryId entry) = 0;

  // The RAM tier gives the entry up, now or with its last view. Disk tiers keep it.
  virtual void drop(EntryId entry) = 0;
  // The same, and disk tiers give it up, too: the next read of it is one of the source.
  virtual void evict(EntryId entry) = 0;
  // The owner of the plan no longer wants what kAheadAndKeep asked for: it stays until its room is taken.
  virtual void release(EntryId entry) = 0;
  // What the RAM tier may hold from now on. What no longer fits is evicted at once, pinned content with its last view.
  // For a store that was opened with a RAM budget; not 0.
  virtual void set_ram_bytes(std::uint64_t bytes) = 0;
  // The file has changed. Reads that begin after this returned get nothing that a tier held of it before. The store
  // also finds out by itself, when it reads a file that is not as it is known to be. Then it takes the new identity,
  // and the read gets the new bytes, all of one version. Where mode or owner are others, too, the read ends with
  // kStale: whoever asked may not be allowed to read the file any more.
  virtual void set_identity(EntryId entry, const Identity& identity) = 0;
  // The file is gone. Reads that begin after this returned end with kNotFound, until set_identity() brings it back.
  virtual void set_vanished(EntryId entry) = 0;
  // Mode or owner are others.
  virtual void set_attributes(EntryId entry, const AttributeClass& attributes) = 0;
  // The listener hears of mode and owner though they are as known: has_acl() may say something else now.
  virtual void tell_attributes(EntryId entry) = 0;
  // Looks at a file in the source and takes what it is now, mode and owner before the content. What a read finds out
  // meanwhile is newer and holds. Errors: kNotFound (it is gone), those of the source. Blocks.
  [[nodiscard]] virtual Status look_at(EntryId entry) = 0;
  // Every file was compared with the source, and what changed was told. A store that was opened with a saved catalog
  // asks the source once about each file until then, before what a disk tier holds of it counts.
  virtual void set_compared() = 0;
  // What is not as catalogued, by what is known now.
  [[nodiscard]] virtual CatalogChanges changes() const = 0;
  // The listener is told of each change, whoever found it, before a read that found it gets bytes of the new version.
  // It runs on any thread of the store or of its callers, must not block, and must not read or change anything in the
  // store. The call returns when no call of the listener before is under way. Empty: nobody is told.
  using ChangeListener = std::function<void(const CatalogChanges&)>;
  virtual void set_change_listener(ChangeListener listener) = 0;
  // Ensures that a disk tier holds the entry as the source has it. kNoSpace: all are full. At once where one holds it.
  virtual void warm(EntryId entry, std::function<void(Status)> done) = 0;
  // True when disk tiers hold all of a file as it is known to be now: warm() has nothing to bring, unless it finds that
  // the file is another one.
  [[nodiscard]] virtual bool is_on_disk(EntryId entry) const = 0;
  // The same of a range that is read ahead alone.
  [[nodiscard]] virtual bool is_range_on_disk(EntryId entry, std::uint64_t offset, std::uint64_t length) const = 0;
  // What is read from now on follows the order: disk tiers then hold what is needed next. The order outlives the
  // handle.
  [[nodiscard]] virtual std::unique_ptr<Following> follow(const Order& order, const FollowOptions& options) = 0;
  // Ensures that the peer that is to hold the entry has it as the source has it. kNotFound: none is to; kNoSpace: it is
  // full; kBusy: it does not answer.
  virtual void share(EntryId entry, std::function<void(Status)> done) = 0;
  // Who shares from now on, for a store that was opened with peers. What is under way ends as it began. Names that led
  // nowhere, or to a peer that is down, are looked up again. Errors: kInvalidArgument (nothing is shared, or as on
  // opening); then all stays as it was. Blocks for the resolver.
  [[nodiscard]] virtual Status set_peers(const std::vector<std::string>& peers) = 0;
  // Writes what disk tiers have not written yet: pending records and their index. Syncs.
  [[nodiscard]] virtual Status flush() = 0;

  [[nodiscard]] virtual StoreStats stats() const = 0;

 protected:
  Store() = default;
};

}  // namespace headrace::cache
