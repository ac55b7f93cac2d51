// SPDX-License-Identifier: Apache-2.0
// A tier on a disk, as its readers see it: looking up records, reading them or parts of them, state and figures.
//
//   auto tier = DiskTier::open({.tier = {TierKind::kSsd, "/ssd/cache", 1 << 40}, .data_set = {key, "/data"}},
//                              ram, timers);
//   if ((*tier)->read(read)) ...            // on_done runs on a thread of the tier
//   (*tier)->write(holding, record, {});    // from the holding's buffer, behind the reader's back
//
// Records lie in a log (disk/segment_log.h), which says how it makes room; where placement evicts single records
// (set_evicting()), a cleaner (disk/cleaner.h) frees segments. What ends admission or reads is in disk/tier_state.h.
//
// A tier that another process has may be opened all the same (`may_be_busy`): it holds nothing, takes nothing and says
// so until the other process lets go of it.
//
// Integrity: a payload is served only when its XXH3 is the one in the index and its identity the catalog's. Else the
// record fails: it is taken out, counted and fetched again.
//
// Thread-safety: every function from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "headrace/cache/disk/cleaner.h"
#include "headrace/cache/disk/segment_log.h"
#include "headrace/cache/disk/tier_state.h"
#include "headrace/cache/disk/tier_threads.h"
#include "headrace/cache/memory/ram_tier.h"
#include "headrace/cache/tier.h"
#include "headrace/io/engine.h"
#include "headrace/io/mutex.h"
#include "headrace/io/timer_thread.h"

namespace headrace::cache {

// Names one chunk of one file, or one range of it, as it is now.
struct RecordId {
  std::uint64_t name_hash = 0;  // hash_name()
  std::uint32_t chunk = 0;
  Identity identity;
  std::uint64_t range_bytes = 0;  // 0: a chunk
};
[[nodiscard]] std::uint64_t hash_name(std::string_view path, std::uint32_t chunk);
// A range is found again by who asks for just the same one. No chunk has the same name.
[[nodiscard]] std::uint64_t hash_name(std::string_view path, const ChunkRange& range);
[[nodiscard]] std::uint64_t hash_identity(const Identity& identity);

class DiskTier;

// A record where it was found.
struct FoundRecord {
  RecordSlot slot = {};
  std::shared_ptr<Segment> segment = {};
};

// Ownership: the caller's; must neither move nor die until on_done has run (exactly once).
struct DiskRead {
  RecordId record;
  io::Buffer buffer;                          // capacity: footprint_bytes of the payload; given back in any case
  const std::atomic<bool>* wanted = nullptr;  // as of io::Operation
  void (*on_done)(DiskRead& self, const Status& status) = nullptr;  // kCorrupt, kStale, kSystem: ask the next tier
  void* context = nullptr;
  std::byte* data = nullptr;

  // Private to DiskTier.
  DiskTier* tier = nullptr;
  TierThreads::Turn turn = {};
  FoundRecord found = {};
  io::Operation operation = {};
};

// As DiskRead, for a part of a record: its last block is read, which has the hashes of its pieces, then the pieces of
// 64 KiB that the part touches. 64 KiB of a chunk of 4 MiB are 68 KiB from the disk that way.
struct DiskPart {
  RecordId record;
  ChunkRange range;                           // within the payload, and not empty
  io::Buffer buffer;                          // capacity: part_buffer_bytes()
  const std::atomic<bool>* wanted = nullptr;  // as of io::Operation
  // kUnsupported: the record has no hashes of its pieces. The rest as of DiskRead.
  void (*on_done)(DiskPart& self, const Status& status) = nullptr;
  void* context = nullptr;
  std::byte* data = nullptr;

  // Private to DiskTier.
  DiskTier* tier = nullptr;
  TierThreads::Turn turn = {};
  FoundRecord found = {};
  std::vector<std::uint64_t> hashes = {};  // of the pieces that are read
  io::Operation operation = {};
};
[[nodiscard]] std::uint64_t part_buffer_bytes(const ChunkRange& range);

struct DiskTierOptions {
  TierOptions tier;
  TierFolder::DataSetName data_set;
  io::EngineOptions engine = {};
  std::function<Result<std::unique_ptr<io::Engine>>()> make_engine;  // for tests; one for each thread
  std::shared_ptr<KnownFiles> known_files = nullptr;                 // SegmentLogOptions::known_files
  bool may_be_busy = false;  // where another process has the tier, it is attached once that lets go
};

class DiskTier {
 public:
  // Errors: those of TierFolder::open() and SegmentLog::open(); kInvalidArgument for a budget below
  // 4 MiB or above 16 TiB.
  [[nodiscard]] static Result<std::unique_ptr<DiskTier>> open(const DiskTierOptions& options, RamTier& ram,
                                                              io::TimerThread& timers);
  ~DiskTier();
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  [[nodiscard]] TierKind kind() const { return options_.kind; }
  [[nodiscard]] bool contains(const RecordId& record) const;
  // False: not held (on_done does not run).
  [[nodiscard]] bool read(DiskRead& read);
  [[nodiscard]] bool read_part(DiskPart& part);
  // DiskRead::wanted of some that were handed over has become true.
  void hurry() {
    if (is_attached()) threads_->hurry();
  }
  // Whether write() would take a record of this size now.
  [[nodiscard]] bool admits(std::uint64_t payload_bytes);
  // Appends the content of a holding that RamTier::pin_for_write() has given. `done` (may be empty) runs on the
  // writer once the record can be read, or with why it cannot. The caller bounds what it has in flight with
  // pending_bytes().
  void write(Holding& holding, const RecordId& record, std::function<void(Status)> done);
  [[nodiscard]] std::uint64_t pending_bytes() const { return pending_bytes_.load(std::memory_order_relaxed); }
  // The record is not wanted here any more: a faster tier has it, or placement evicts it.
  void drop(const RecordId& record);
  // From now on single records are evicted with drop() to make room, and the caller keeps to evicting_bytes().
  void set_evicting(bool evicting);
  // What may be held in records then: the rest of the budget is dead weight that waits for cleaning.
  [[nodiscard]] std::uint64_t evicting_bytes() const;
  // Waits for the writes so far, saves the index of what is not saved, syncs.
  [[nodiscard]] Status flush() { return is_attached() ? log_->flush() : Status(); }
  // Waits for the writes under way (at most 5 s) and saves the index; nothing is admitted any more.
  void close();
  // Waits until each thread has finished the completion that it is in.
  void settle() { threads_->settle(); }
  // Ends the reads in flight (kCancelled) and joins the threads. After close() and TimerThread::stop().
  void join();
  [[nodiscard]] TierStats stats() const;

 private:
  struct Write;

  DiskTier(const DiskTierOptions& options, RamTier& ram, io::TimerThread& timers)
      : options_(options.tier),
        data_set_(options.data_set),
        known_files_(options.known_files),
        ram_(ram),
        timers_(timers),
        state_(options_.path) {}

  [[nodiscard]] Status attach(TierFolder folder);
  void attach_when_free();
  [[nodiscard]] bool wait_for_next_try();
  // False: another process has it, and none of log_ and cleaner_ is there.
  [[nodiscard]] bool is_attached() const { return attached_.load(std::memory_order_acquire); }

  // The record where it is to be read; fails one that is of no use any more.
  [[nodiscard]] std::optional<FoundRecord> look_up(const RecordId& record);
  void fail_record(const RecordSlot& slot, std::atomic<std::uint64_t>& counter);
  void lose_record(const RecordSlot& slot, const io::Error& error);
  void end_read(DiskRead& read, Result<std::uint64_t> bytes);
  void submit_part(DiskPart& part, const ChunkRange& in_segment,
                   void (*on_complete)(io::Operation& operation, Result<std::uint64_t> bytes));
  void end_read_of_hashes(DiskPart& part, Result<std::uint64_t> bytes);
  void end_read_of_pieces(DiskPart& part, Result<std::uint64_t> bytes);
  [[nodiscard]] bool take_hashes(DiskPart& part, std::uint64_t bytes);
  static void end_part(DiskPart& part, const Status& status);
  void begin_write(Write& write);
  void end_write(Write& write, Status status);

  const TierOptions options_;
  const TierFolder::DataSetName data_set_;
  const std::shared_ptr<KnownFiles> known_files_;
  RamTier& ram_;
  io::TimerThread& timers_;
  TierState state_;
  std::atomic<std::uint64_t> pending_bytes_ = 0;
  std::atomic<std::uint64_t> hits_ = 0;
  std::atomic<std::uint64_t> hit_bytes_ = 0;
  std::atomic<std::uint64_t> evictions_ = 0;
  std::atomic<std::uint64_t> corrupt_ = 0;
  std::atomic<std::uint64_t> stale_ = 0;

  std::atomic<bool> attached_ = false;
  std::atomic<bool> evicting_ = false;
  io::Mutex attach_mutex_;
  io::CondVar attach_wake_;
  bool stops_attaching_ HEADRACE_GUARDED_BY(attach_mutex_) = false;
  std::thread attach_thread_;  // only where the tier was busy; close() joins it

  // Made by attach(), in this order but for the threads, whose end runs completions that use everything above.
  std::unique_ptr<SegmentLog> log_;
  std::unique_ptr<Cleaner> cleaner_;
  std::unique_ptr<TierThreads> threads_;
};

}  // namespace headrace::cache
