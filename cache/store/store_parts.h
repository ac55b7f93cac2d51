// SPDX-License-Identifier: Apache-2.0
// What the steps of a read work with. The Store owns it, opens it and closes it; the steps only use it.
//
// The life of a read: the RAM tier holds the chunk (a pin, a view, no allocation), or the chunk is on its way (one more
// waiter), or a fetch begins (fetch.h). The fetch waits for its part of the budget, tries the disk tiers, then the
// source, and hands views to the waiters; disk tiers write their copies from the same buffer.
//
// Thread-safety: each part takes care of itself. No lock of this room is held while a callback runs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "headrace/cache/catalog.h"
#include "headrace/cache/disk/disk_tier.h"
#include "headrace/cache/disk/known_files.h"
#include "headrace/cache/memory/memory_queue.h"
#include "headrace/cache/memory/ram_tier.h"
#include "headrace/cache/shared/shared_tier.h"
#include "headrace/cache/source/source.h"
#include "headrace/cache/store/following.h"
#include "headrace/cache/store/identities.h"
#include "headrace/cache/store/mover.h"
#include "headrace/io/mutex.h"
#include "headrace/io/timer_thread.h"

namespace headrace::cache {

// 64 MiB waiting to be written, or a quarter of the RAM budget: this rides out a disk's pauses without holding the
// memory that reads need.
inline constexpr std::uint64_t kWriteBehindBytesMax = 64ULL << 20;

// How often a read begins anew because the file turned out to be another. Once is enough for a file that was replaced;
// a file that is being written may be another each time, and then the read ends with kStale.
inline constexpr unsigned kAttemptsAfterChange = 2;

struct StoreParts {
  StoreParts(Catalog catalog_in, std::uint64_t ram_bytes);

  // A file is another, or gone (nullopt): RAM gives up what it held of it, and the listener is told. Reads that begin
  // after this returned get nothing of what was before.
  void set_identity(EntryId entry, const std::optional<Identity>& identity);
  void set_attributes(EntryId entry, const AttributeClass& attributes);
  void tell_attributes(EntryId entry);
  // Looks what is at the file's path now, and takes that. But where another change was learnt of since the file was
  // known to be `expected` (nullopt: gone), that holds. Errors: as io::read_attributes(); kNotFound for what is no file
  // any more.
  [[nodiscard]] Status look_at(EntryId entry, const std::optional<Identity>& expected);

  // The version with which a read begins anew that turned out to be of another one; its readers were let in by
  // `let_in_by`. nullopt: it ends, because no attempt is left, the file is gone, or a reader may not read it any more.
  [[nodiscard]] std::optional<Identity> version_anew(EntryId entry, const AttributeClass& let_in_by,
                                                     unsigned attempts_left) const;

  [[nodiscard]] bool held_on_disk(const RecordId& record) const;
  // Whether a file can stay in memory. Half of it: the rest is for what is on its way.
  [[nodiscard]] bool can_hold(std::uint64_t file_bytes) const { return file_bytes <= ram.budget_bytes() / 2; }
  [[nodiscard]] bool is_shared(EntryId entry) const { return shared != nullptr && shared->holds(entry); }
  [[nodiscard]] bool peer_takes(EntryId entry) const { return shared != nullptr && shared->takes(entry); }
  // As write(), to the peer that is to hold it; `done` may be empty.
  void share(Holding& holding, const SharedId& id, std::function<void(Status)> done);
  // Has the first tier that takes the content write a copy, of those that are faster than where it came from (`from`;
  // none of the tiers: the source). Where too much waits to be written already, the next read of it brings it again.
  void copy_to_tier(Holding& holding, const RecordId& record, std::size_t from);
  // Whether there is room for so many bytes among those that wait to be written to the tier.
  [[nodiscard]] bool has_line_for(const DiskTier& tier, std::uint64_t bytes) const;
  // As DiskTier::write(). Who waits for memory waits for the end of it, however long the disk takes.
  void write(DiskTier& tier, Holding& holding, const RecordId& record, std::function<void(Status)> done);

  const Catalog catalog;
  Identities identities{catalog};
  io::TimerThread timers{"hr-timer"};
  std::shared_ptr<KnownFiles> known_files;  // of the disk tiers; null: there are none
  RamTier ram;
  MemoryQueue memory;
  Mover mover;
  std::unique_ptr<Source> source;  // set before the first read, as are the next three
  DiskTiers tiers;
  std::unique_ptr<SharedTier> shared;      // null: no other node is there to share with
  std::unique_ptr<TierFollower> follower;  // decides what the disk tiers hold
  std::atomic<bool> closing = false;       // no step of a read starts another one any more

  // Held while a change is carried out, and while the listener is told of it. It comes before all other mutexes.
  io::Mutex change_mutex;
  std::function<void(const CatalogChanges&)> change_listener HEADRACE_GUARDED_BY(change_mutex);

  std::atomic<std::uint64_t> reads = 0;           // that the store was asked for
  std::atomic<std::uint64_t> shared_fetches = 0;  // reads that waited for a fetch that was under way
  std::atomic<std::uint64_t> failures = 0;        // reads that a failed fetch ended

 private:
  void carry_out(EntryId entry, const std::optional<Identity>& identity) HEADRACE_REQUIRES(change_mutex);
  void carry_out(EntryId entry, const AttributeClass& attributes) HEADRACE_REQUIRES(change_mutex);
};

}  // namespace headrace::cache
