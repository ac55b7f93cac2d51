// SPDX-License-Identifier: Apache-2.0
// The log of a disk tier: records are appended to segments and never changed; an index in memory says where they lie.
//
//   auto log = SegmentLog::open(std::move(folder), {budget_bytes, data_set}, state, threads);
//   auto slot = (*log)->find(key);                   // then read from (*log)->segment_of(*slot)
//   threads.writer().post([&] { (*log)->append(record); });   // record.on_done runs on that thread
//
// Room: the oldest segments go when the budget has become smaller. A full log takes nothing more; only a segment of
// which less than half is of use to the data set at hand makes room (the rest are records of other data sets, of files
// that changed or are gone, damaged ones). Where single records are evicted (set_evicting()), dead ones lie
// everywhere, and a Cleaner is told when the last free segment was taken into use. Where some of the file system is to
// stay free, the budget is what that leaves: it is looked at before each new segment and every few seconds, and
// segments go.
//
// Durability: nothing is synced while filling. A crash loses the records in flight; a scan finds those that no index
// file covers. flush() syncs.
//
// Thread-safety: as each group of functions says. "The I/O thread" is the writer of those given to open().
// Lock order: mutex_ is a leaf.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "headrace/cache/disk/known_files.h"
#include "headrace/cache/disk/record_index.h"
#include "headrace/cache/disk/segment.h"
#include "headrace/cache/disk/tier_folder.h"
#include "headrace/cache/disk/tier_state.h"
#include "headrace/cache/disk/tier_threads.h"
#include "headrace/cache/tier.h"
#include "headrace/io/engine.h"
#include "headrace/io/io_thread.h"
#include "headrace/io/mutex.h"
#include "headrace/io/timer_thread.h"

namespace headrace::cache {

// One record on its way to the disk.
// Ownership: the caller's; must neither move nor die until on_done has run (exactly once).
struct Append {
  RecordTrailer trailer;                 // the log fills in `segment`, `first_block` and `hash`
  io::Buffer buffer;                     // the record in whole blocks but for its trailer; given back in any case
  std::optional<RecordSlot> moved_from;  // the record that this is a copy of, made by the Cleaner
  // On the I/O thread: success once the record can be read. kNoSpace: the tier is full or takes nothing now.
  void (*on_done)(Append& self, Status status) = nullptr;
  void* context = nullptr;

  // Private to SegmentLog.
  class SegmentLog* log = nullptr;
  std::shared_ptr<Segment> segment = {};
  io::Operation operation = {};
};

struct SegmentLogOptions {
  std::uint64_t budget_bytes = 0;
  TierFolder::DataSetName data_set;   // whose records count as useful
  std::uint64_t keep_free_bytes = 0;  // of the file system; 0: nothing is asked
  // The versions whose records count as useful; what is appended from now on is added. Null: all do.
  std::shared_ptr<KnownFiles> known_files = nullptr;
};

class SegmentLog {
 public:
  // Loads the segments. What goes wrong with one of them is logged, and the segment left alone. `state` and `threads`
  // outlive the last append. Errors: the system's, for listing the folder or starting a thread.
  [[nodiscard]] static Result<std::unique_ptr<SegmentLog>> open(TierFolder folder, const SegmentLogOptions& options,
                                                                TierState& state, TierThreads& threads);
  SegmentLog(const SegmentLog&) = delete;
  SegmentLog& operator=(const SegmentLog&) = delete;

  // Any thread.
  [[nodiscard]] const TierFolder& folder() const { return folder_; }
  [[nodiscard]] const TierFolder::DataSetName& data_set() const { return data_set_; }
  [[nodiscard]] std::uint64_t key_of(std::uint64_t name_hash) const;
  [[nodiscard]] std::optional<RecordSlot> find(std::uint64_t key) const { return index_.find(key); }
  [[nodiscard]] std::shared_ptr<Segment> segment_of(const RecordSlot& slot) const;  // null: removed since it was found
  // The record's block within its segment.
  [[nodiscard]] std::uint32_t block_of(const RecordSlot& slot) const { return slot.block % blocks_per_segment_; }
  // Nobody finds exactly this record any more; false when nobody did. Its place is dead weight from now on.
  bool drop(const RecordSlot& slot);
  void set_evicting(bool evicting);
  // What may be held in records then: the rest of the budget is dead weight that waits for cleaning.
  [[nodiscard]] std::uint64_t evicting_bytes() const;
  [[nodiscard]] static std::uint64_t evicting_bytes_of(std::uint64_t segments_max, std::uint64_t segment_bytes);
  void add_figures(TierStats& stats) const;
  // Waits for the appends so far, saves the index of what is not saved, syncs.
  [[nodiscard]] Status flush();
  // Waits for the appends under way (at most 5 s) and saves the index. After TierState::close().
  void finish();
  // Saves the index every 30 s from now on, until the state has ended.
  void save_periodically(io::TimerThread& timers);
  // Keeps free what is to stay free from now on, until the state has ended.
  void watch_free_space(io::TimerThread& timers);
  // Before the threads end. The segments' descriptors are not used any more.
  void unregister_files();

  // The I/O thread only: appending.
  void append(Append& record);

  // The I/O thread only: for the Cleaner, which `clean` begins. It runs when the last free segment was taken into use.
  void set_cleaning(std::function<void()> clean) { clean_ = std::move(clean); }
  // New records wait from here to resume(); flush() and finish() wait for both.
  void pause();
  void resume();
  // Into the segment being filled; false: no room there (and on_done does not run).
  [[nodiscard]] bool append_moved(Append& record);
  [[nodiscard]] std::shared_ptr<Segment> least_useful();  // null: there is none to choose from
  // Of whatever data set, in no order.
  [[nodiscard]] std::vector<RecordSlot> records_in(const Segment& segment) const;
  // Whether anybody may ask for the record again.
  [[nodiscard]] bool is_of_use(const RecordSlot& slot) const {
    return known_files_ == nullptr || known_files_->may_have(slot.identity_hash);
  }
  void remove(const Segment& segment);

 private:
  SegmentLog(TierFolder folder, const SegmentLogOptions& options, TierState& state, TierThreads& threads);

  // Opening: before the first append, on the opening thread.
  [[nodiscard]] Status load();
  [[nodiscard]] Status load_segment(std::uint32_t number);
  void fit_budget(std::vector<std::uint32_t>& numbers);
  void choose_active();

  // What a record adds to the use of its segment.
  [[nodiscard]] std::int64_t weight_of(const RecordSlot& slot) const;

  // The I/O thread only.
  void write_to_active(Append& record);
  void end_append(Append& record, Result<std::uint64_t> bytes);
  void index_record(Segment& segment, const IndexedRecord& record);
  void index_moved(Segment& segment, const Append& record);
  [[nodiscard]] bool has_room(std::uint32_t blocks) const;
  [[nodiscard]] Status make_room_for(std::uint32_t blocks);
  void seal(Segment& segment);
  [[nodiscard]] Status add_segment();
  [[nodiscard]] bool can_gain_by_cleaning();
  void count_use(Segment& segment);
  [[nodiscard]] std::vector<IndexedRecord> listed_in(const Segment& segment) const;
  [[nodiscard]] std::optional<RecordSlot> slot_in(const Segment& segment, const IndexedRecord& record) const;
  [[nodiscard]] bool remove_least_useful();
  void measure_room();
  void keep_free();
  void give_back();
  [[nodiscard]] Status checkpoint(bool sync);
  void run_when_quiet(std::function<void()> task);
  void run_quiet_tasks();
  void begin_held_back();

  void remove_files(std::uint32_t number) const;
  [[nodiscard]] std::vector<std::shared_ptr<Segment>> segments() const;  // those that are there

  const TierFolder folder_;
  const TierFolder::DataSetName data_set_;
  const std::uint32_t blocks_per_segment_;
  const std::uint32_t segments_max_;
  const std::uint64_t keep_free_bytes_;
  const std::shared_ptr<KnownFiles> known_files_;  // null: all records are of use
  TierState& state_;
  TierThreads& threads_;
  io::IoThread& thread_;  // the writer
  RecordIndex index_;

  std::atomic<std::uint32_t> segments_allowed_;  // segments_max_, or fewer where its file system is short of space
  std::atomic<bool> evicting_ = false;
  std::atomic<std::uint64_t> used_blocks_ = 0;
  std::atomic<std::uint64_t> writes_ = 0;
  std::atomic<std::uint64_t> write_bytes_ = 0;
  std::atomic<std::uint64_t> moved_bytes_ = 0;
  std::atomic<std::uint64_t> removed_records_ = 0;

  // The I/O thread's (until the first append, the opening thread's).
  std::shared_ptr<Segment> active_;  // null: none is being filled
  std::uint32_t next_number_ = 1;
  std::size_t appends_in_flight_ = 0;  // a pause counts as one
  bool paused_ = false;
  bool gives_back_ = false;                        // give_back() will run
  std::vector<std::function<void()>> when_quiet_;  // run once no append is in flight
  std::vector<Append*> held_back_;                 // begin after those, and after the pause
  std::function<void()> clean_;

  mutable io::Mutex mutex_;
  std::vector<std::shared_ptr<Segment>> segments_ HEADRACE_GUARDED_BY(mutex_);  // by place; null: free
};

}  // namespace headrace::cache
