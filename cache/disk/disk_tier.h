// SPDX-License-Identifier: Apache-2.0
// A log-structured tier on a disk: records are appended to segments and never changed; an index in memory says where.
//
//   auto tier = DiskTier::open({.tier = {TierKind::kSsd, "/ssd/cache", 1 << 40}, .data_set = {key, "/data"}}, ram,
//   timers); if ((*tier)->read(read)) ...            // on_done runs on the tier's I/O thread
//   (*tier)->write(holding, record, {});    // from the holding's buffer, behind the reader's back
//
// Room: a full tier takes nothing more; only segments of which less than half is of use to the data set at hand
// (records of other data sets, of files that changed, damaged ones) make room. Where placement evicts (set_evicting()),
// the dead records that forget() leaves behind are cleaned away (disk_tier_clean.cpp).
//
// Integrity: a payload is served only when its XXH3 is the one in the index and its identity the catalog's; else it is
// dropped, counted and fetched again. Durability is relaxed: a crash loses the records in flight.
//
// Failures: a failed write (full disk, I/O error, read-only) ends admission and reads go on; after kReadErrorsMax
// failed reads in a row the tier is not asked any more. Both are logged and shown in stats().
//
// Thread-safety: every function from any thread. Lock order: mutex_, then nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/cache/disk/record_index.h"
#include "headrace/cache/disk/segment.h"
#include "headrace/cache/disk/tier_folder.h"
#include "headrace/cache/memory/ram_tier.h"
#include "headrace/cache/tier.h"
#include "headrace/io/engine.h"
#include "headrace/io/io_thread.h"
#include "headrace/io/mutex.h"
#include "headrace/io/timer_thread.h"

namespace headrace::cache {

// Names one chunk of one file, as it is now.
struct RecordId {
  std::uint64_t name_hash = 0;  // hash_name()
  std::uint32_t chunk = 0;
  Identity identity;
};
[[nodiscard]] std::uint64_t hash_name(std::string_view path, std::uint32_t chunk);
[[nodiscard]] std::uint64_t hash_identity(const Identity& identity);

class DiskTier;

// Ownership: the caller's; must neither move nor die until on_done has run (exactly once).
struct DiskRead {
  RecordId record;
  io::Buffer buffer;  // capacity: footprint_bytes of the payload; given back in any case
  void (*on_done)(DiskRead& self, Status status) = nullptr;  // kCorrupt, kStale, kSystem: ask the next tier
  void* context = nullptr;
  std::byte* data = nullptr;

  // Private to DiskTier.
  DiskTier* tier = nullptr;
  RecordSlot slot = {};
  std::shared_ptr<Segment> segment = {};
  io::Operation operation = {};
};

// As DiskRead, for a part of a record. kUnsupported: the record has no hashes of its pieces.
struct DiskPart {
  RecordId record;
  ChunkRange range;   // within the payload, and not empty
  io::Buffer buffer;  // capacity: part_buffer_bytes()
  void (*on_done)(DiskPart& self, const Status& status) = nullptr;
  void* context = nullptr;
  std::byte* data = nullptr;

  // Private to DiskTier.
  DiskTier* tier = nullptr;
  RecordSlot slot = {};
  std::shared_ptr<Segment> segment = {};
  std::vector<std::uint64_t> hashes = {};  // of the pieces that are read
  io::Operation operation = {};
};
[[nodiscard]] std::uint64_t part_buffer_bytes(const ChunkRange& range);

struct DiskTierOptions {
  TierOptions tier;
  TierFolder::DataSet data_set;
  io::EngineOptions engine = {};
  std::function<Result<std::unique_ptr<io::Engine>>()> make_engine;  // for tests
};

class DiskTier {
 public:
  // Errors: those of TierFolder::open(); kInvalidArgument for a budget below kTierBytesMin.
  [[nodiscard]] static Result<std::unique_ptr<DiskTier>> open(const DiskTierOptions& options, RamTier& ram,
                                                              io::TimerThread& timers);
  ~DiskTier();
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  [[nodiscard]] TierKind kind() const { return options_.tier.kind; }
  [[nodiscard]] bool contains(const RecordId& record) const;
  // False: not held (on_done does not run).
  [[nodiscard]] bool read(DiskRead& read);
  [[nodiscard]] bool read_part(DiskPart& part);
  // Whether write() would take a record of this size now.
  [[nodiscard]] bool admits(std::uint64_t payload_bytes) const;
  // Appends the content of a holding that RamTier::pin_for_write() has given. `done` (may be empty) runs on the I/O
  // thread once the record can be read, or with why it cannot. The caller bounds what it has in flight with
  // pending_bytes().
  void write(Holding& holding, const RecordId& record, std::function<void(Status)> done);
  [[nodiscard]] std::uint64_t pending_bytes() const { return pending_bytes_.load(std::memory_order_relaxed); }
  // The record is not wanted here any more (a faster tier has it, the file changed).
  void forget(const RecordId& record);
  // From now on single records are evicted with forget() to make room, and the caller keeps to evicting_bytes().
  void set_evicting(bool evicting);
  // What may be held in records then: the rest of the budget is dead weight that waits for cleaning.
  [[nodiscard]] std::uint64_t evicting_bytes() const;
  // Waits for the writes so far, saves the index of what is not saved, syncs.
  [[nodiscard]] Status flush();
  // Waits for the writes under way (at most 5 s) and saves the index; nothing is admitted any more.
  void close();
  // Waits until the I/O thread has finished the completion that it is in.
  void settle();
  // Ends the reads in flight (kCancelled) and joins the I/O thread. After close() and TimerThread::stop().
  void join();
  [[nodiscard]] TierStats stats() const;

 private:
  struct Write;
  // One record is on its way at a time: cleaning goes on beside reads and need not be faster than what fills the tier.
  struct Cleaning {
    std::shared_ptr<Segment> from;
    std::vector<RecordSlot> left;  // the first in the segment at the back
    RecordSlot slot = {};          // of the record on its way
    RecordTrailer trailer = {};
    std::uint32_t first_block = 0;  // in the active segment
    io::Operation operation = {};
  };
  enum class State : std::uint8_t { kOk, kFull, kNoSpace, kReadOnly, kWriteFailed, kDropped, kClosed };

  DiskTier(DiskTierOptions options, TierFolder folder, RamTier& ram, io::TimerThread& timers);

  // Opening (disk_tier_open.cpp); the I/O thread does not run yet.
  [[nodiscard]] Status load();
  [[nodiscard]] Status load_segment(std::uint32_t number);
  void choose_active();
  void fit_budget();
  void index_record(Segment& segment, const IndexedRecord& record);

  // The I/O thread only (disk_tier_write.cpp).
  void begin_write(Write* write);
  void take_place(Write& write);
  [[nodiscard]] std::uint32_t take_blocks(std::uint32_t blocks);
  void append_trailer(Write& write);
  void end_write(Write* write, Result<std::uint64_t> bytes);
  void answer_write(Write* write, Status status);
  [[nodiscard]] bool has_room(std::uint32_t blocks) const;
  [[nodiscard]] Status make_room_for(std::uint32_t blocks);
  void seal_active();
  [[nodiscard]] Status add_segment();
  [[nodiscard]] std::shared_ptr<Segment> least_useful() const;
  [[nodiscard]] bool remove_least_useful();
  void remove_segment(std::uint32_t place);
  void checkpoint(bool sync, Status& outcome);
  [[nodiscard]] Status sync_segment(Segment& segment);
  void run_when_quiet(std::function<void()> task);
  void run_quiet_tasks();
  void begin_held_back();
  void save_periodically();

  // The I/O thread only (disk_tier_clean.cpp).
  void start_cleaning();
  void move_next();
  [[nodiscard]] bool read_for_moving();
  [[nodiscard]] bool is_intact_for_moving();
  void write_moved();
  void end_move(Result<std::uint64_t> bytes);
  void end_cleaning();

  struct Found {
    RecordSlot slot;
    std::shared_ptr<Segment> segment;
  };
  // The record where it is to be read; drops one that is of no use any more.
  [[nodiscard]] std::optional<Found> look_up(const RecordId& record);
  // Parts of records (disk_tier_part.cpp).
  void submit_part(DiskPart& part, const ChunkRange& in_segment,
                   void (*on_complete)(io::Operation& operation, Result<std::uint64_t> bytes));
  void end_read_of_hashes(DiskPart& part, Result<std::uint64_t> bytes);
  void end_read_of_pieces(DiskPart& part, Result<std::uint64_t> bytes);
  static void end_part(DiskPart& part, const Status& status);
  void end_read(DiskRead& read, Result<std::uint64_t> bytes);
  void drop_record(const RecordSlot& slot, std::atomic<std::uint64_t>& counter);
  void note_read_error(const io::Error& error);
  void stop_admission(const io::Error& error);
  void set_state(State state, std::string why);
  void reconsider_full(const Segment& segment);
  [[nodiscard]] std::shared_ptr<Segment> segment_at(std::uint32_t block) const;
  [[nodiscard]] std::vector<std::shared_ptr<Segment>> segments() const;  // those that are there
  [[nodiscard]] std::uint64_t key_of(const RecordId& record) const;

  const DiskTierOptions options_;
  const TierFolder folder_;
  const std::uint32_t blocks_per_segment_;
  const std::uint32_t segments_max_;
  RamTier& ram_;
  io::TimerThread& timers_;
  RecordIndex index_;

  std::atomic<State> state_ = State::kOk;
  std::atomic<bool> evicting_ = false;
  std::atomic<std::uint64_t> pending_bytes_ = 0;
  std::atomic<std::uint64_t> read_errors_in_a_row_ = 0;
  std::atomic<std::uint64_t> used_blocks_ = 0;
  std::atomic<std::uint64_t> hits_ = 0;
  std::atomic<std::uint64_t> hit_bytes_ = 0;
  std::atomic<std::uint64_t> writes_ = 0;
  std::atomic<std::uint64_t> write_bytes_ = 0;
  std::atomic<std::uint64_t> moved_bytes_ = 0;
  std::atomic<std::uint64_t> evictions_ = 0;
  std::atomic<std::uint64_t> errors_ = 0;
  std::atomic<std::uint64_t> corrupt_ = 0;
  std::atomic<std::uint64_t> stale_ = 0;

  // The I/O thread's.
  std::shared_ptr<Segment> active_;  // null: none is being filled
  std::uint32_t next_number_ = 1;
  std::size_t writes_in_flight_ = 0;
  std::vector<std::function<void()>> when_quiet_;  // run once no write is in flight
  std::vector<Write*> held_back_;                  // begin after those, and after the cleaning
  std::unique_ptr<Cleaning> cleaning_;             // null: none is under way

  mutable io::Mutex mutex_;
  std::vector<std::shared_ptr<Segment>> segments_ HEADRACE_GUARDED_BY(mutex_);  // by place; null: free
  std::string why_ HEADRACE_GUARDED_BY(mutex_);                                 // what set the state

  std::unique_ptr<io::IoThread> thread_;  // last: its end runs completions, which use everything above
};

}  // namespace headrace::cache
