// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/disk/segment_log.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;
using io::MutexLock;

// One part in eight of the room is given up, so that no segment gained costs moving more than seven eighths of one.
constexpr std::uint64_t kDeadParts = 8;
constexpr std::chrono::seconds kSaveInterval{30};  // bounds what a restart after a crash has to scan
// 5 s: who writes 1 GB/s takes 5 GB meanwhile, and a file system has the room of removed segments back by then.
constexpr std::chrono::seconds kLookInterval{5};
constexpr std::chrono::seconds kFinishTimeout{5};  // takes the bound on pending writes on any disk that works

}  // namespace

// Opening.

SegmentLog::SegmentLog(TierFolder folder, const SegmentLogOptions& options, TierState& state, TierThreads& threads)
    : folder_(std::move(folder)),
      data_set_(options.data_set),
      blocks_per_segment_(static_cast<std::uint32_t>(folder_.label().segment_bytes / kBlockBytes)),
      segments_max_(
          static_cast<std::uint32_t>(std::max<std::uint64_t>(1, options.budget_bytes / folder_.label().segment_bytes))),
      keep_free_bytes_(options.keep_free_bytes),
      known_files_(options.known_files),
      state_(state),
      threads_(threads),
      thread_(threads.writer()),
      segments_allowed_(segments_max_) {}

Result<std::unique_ptr<SegmentLog>> SegmentLog::open(TierFolder folder, const SegmentLogOptions& options,
                                                     TierState& state, TierThreads& threads) {
  std::unique_ptr<SegmentLog> log(new SegmentLog(std::move(folder), options, state, threads));
  log->thread_.register_file(log->folder_.lock_fd());  // before any write
  HEADRACE_TRY_DO(log->load());
  for (const auto& segment : log->segments()) threads.register_file(segment->fd.get());
  return log;
}

Status SegmentLog::load() {
  folder_.remove_drafts();
  HEADRACE_TRY(numbers, folder_.segment_numbers());
  fit_budget(numbers);
  for (const std::uint32_t number : numbers) {
    if (auto loaded = load_segment(number); !loaded) {
      io::log_warning("{}; segment {} is left alone", loaded.error().message(), number);
    }
    next_number_ = number + 1;
  }
  choose_active();
  measure_room();
  if (auto named = folder_.add_data_set(data_set_); !named) state_.note_write_error(named.error());
  return {};
}

Status SegmentLog::load_segment(std::uint32_t number) {
  auto segment = std::make_shared<Segment>();
  segment->number = number;
  segment->counted_at = known_files_ ? known_files_->changes() : 0;
  Status opened = open_segment_file(folder_, *segment, true);
  if (!opened && opened.error().os_errno == EROFS) {
    state_.note_write_error(opened.error());
    opened = open_segment_file(folder_, *segment, false);
  }
  if (!opened) return opened;
  if (!load_segment_index(folder_, *segment) || !segment->sealed) HEADRACE_TRY_DO(scan_segment(folder_, *segment));
  {
    MutexLock lock(mutex_);
    segment->place = static_cast<std::uint32_t>(segments_.size());
    segments_.push_back(segment);
  }
  for (const IndexedRecord& record : segment->records) index_record(*segment, record);
  used_blocks_.fetch_add(segment->next_block);
  return {};
}

// The budget may have become smaller since the tier was last used: the oldest segments go.
void SegmentLog::fit_budget(std::vector<std::uint32_t>& numbers) {
  const std::size_t too_many = numbers.size() - std::min<std::size_t>(numbers.size(), segments_max_);
  for (std::size_t i = 0; i < too_many; ++i) remove_files(numbers[i]);
  numbers.erase(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(too_many));
  if (too_many > 0)
    io::log_info("tier {}: {} segments were more than the budget and are gone", folder_.path(), too_many);
}

// Filling goes on in the newest segment that is not sealed; older ones (a crash between two of them) are sealed.
void SegmentLog::choose_active() {
  const auto present = segments();
  for (const auto& segment : present) {
    if (segment->sealed) {
      std::vector<IndexedRecord>().swap(segment->records);
    } else if (segment == present.back() && reserve_blocks(folder_, *segment)) {
      active_ = segment;
    } else {
      seal(*segment);
    }
  }
}

// Any thread.

std::uint64_t SegmentLog::key_of(std::uint64_t name_hash) const {
  return record_key(data_set_.key, name_hash);
}

std::shared_ptr<Segment> SegmentLog::segment_of(const RecordSlot& slot) const {
  const std::uint32_t place = slot.block / blocks_per_segment_;
  MutexLock lock(mutex_);
  return place < segments_.size() ? segments_[place] : nullptr;
}

std::vector<std::shared_ptr<Segment>> SegmentLog::segments() const {
  std::vector<std::shared_ptr<Segment>> present;
  MutexLock lock(mutex_);
  std::copy_if(segments_.begin(), segments_.end(), std::back_inserter(present),
               [](const auto& segment) { return segment != nullptr; });
  return present;
}

// A full tier takes records again once one of its segments is worth less than half of its room.
bool SegmentLog::drop(const RecordSlot& slot) {
  if (!index_.erase(slot)) return false;
  const auto segment = segment_of(slot);
  if (segment == nullptr) return true;
  const std::int64_t weight = weight_of(slot);
  const std::int64_t useful = segment->useful_bytes.fetch_sub(weight) - weight;
  if (useful * 2 < static_cast<std::int64_t>(folder_.label().segment_bytes)) state_.note_room();
  return true;
}

std::int64_t SegmentLog::weight_of(const RecordSlot& slot) const {
  return is_of_use(slot) ? static_cast<std::int64_t>(footprint_bytes(slot.payload_bytes)) : 0;
}

void SegmentLog::set_evicting(bool evicting) {
  if (!evicting_.exchange(evicting) && evicting) state_.note_room();
}

// One segment is being filled and one is free, for cleaning.
std::uint64_t SegmentLog::evicting_bytes_of(std::uint64_t segments_max, std::uint64_t segment_bytes) {
  const std::uint64_t segments = segments_max > 2 ? segments_max - 2 : 0;
  return segments * segment_bytes / kDeadParts * (kDeadParts - 1);
}

std::uint64_t SegmentLog::evicting_bytes() const {
  return evicting_bytes_of(segments_allowed_.load(), folder_.label().segment_bytes);
}

void SegmentLog::add_figures(TierStats& stats) const {
  if (const std::uint32_t allowed = segments_allowed_.load(); allowed < segments_max_) {
    stats.budget_bytes = allowed * folder_.label().segment_bytes;
  }
  stats.used_bytes = used_blocks_.load() * kBlockBytes;
  stats.samples = index_.size();
  stats.writes = writes_.load();
  stats.write_bytes = write_bytes_.load();
  stats.moved_bytes = moved_bytes_.load();
  stats.evictions += removed_records_.load();
}

Status SegmentLog::flush() {
  std::promise<Status> promise;
  thread_.post([this, &promise] { run_when_quiet([this, &promise] { promise.set_value(checkpoint(true)); }); });
  return promise.get_future().get();
}

void SegmentLog::finish() {
  auto promise = std::make_shared<std::promise<void>>();
  auto saved = promise->get_future();
  thread_.post([this, promise] {
    run_when_quiet([this, promise] {
      static_cast<void>(checkpoint(false));  // a scan finds what is not in the index file
      promise->set_value();
    });
  });
  saved.wait_for(kFinishTimeout);
}

void SegmentLog::save_periodically(io::TimerThread& timers) {
  timers.after(kSaveInterval, [this, &timers] {
    if (state_.has_ended()) return;
    thread_.post([this] {
      if (Status saved = checkpoint(false); !saved) state_.note_write_error(saved.error());
    });
    save_periodically(timers);
  });
}

void SegmentLog::watch_free_space(io::TimerThread& timers) {
  if (keep_free_bytes_ == 0) return;
  thread_.post([this] { keep_free(); });
  timers.after(kLookInterval, [this, &timers] {
    if (!state_.has_ended()) watch_free_space(timers);
  });
}

void SegmentLog::unregister_files() {
  for (const auto& segment : segments()) threads_.unregister_file(segment->fd.get(), segment);
}

// The I/O thread: appending. Places are given out in order, without a lock.

void SegmentLog::append(Append& record) {
  // A flush ends even while others go on appending.
  if (!when_quiet_.empty() || paused_) return held_back_.push_back(&record);
  const std::uint32_t blocks = blocks_of(record.trailer.payload_bytes);
  if (auto room = make_room_for(blocks); !room) return record.on_done(record, std::move(room));
  if (paused_) return held_back_.push_back(&record);  // making room began the cleaning
  if (!has_room(blocks)) return append(record);       // it began and ended at once, and others took the room
  write_to_active(record);
}

bool SegmentLog::append_moved(Append& record) {
  if (!has_room(blocks_of(record.trailer.payload_bytes))) return false;
  write_to_active(record);
  return true;
}

void SegmentLog::write_to_active(Append& record) {
  Segment& segment = *active_;
  RecordTrailer& trailer = record.trailer;
  const std::uint32_t blocks = blocks_of(trailer.payload_bytes);
  trailer.segment = segment.number;
  trailer.first_block = std::exchange(segment.next_block, segment.next_block + blocks);
  trailer.hash = trailer_hash(trailer, folder_.label().salt);
  segment.writes_in_flight.insert(trailer.first_block);
  segment.index_dirty = true;
  used_blocks_.fetch_add(blocks);
  appends_in_flight_ += 1;

  const std::size_t record_bytes = blocks * kBlockBytes;
  std::memcpy(record.buffer.data() + record_bytes - sizeof trailer, &trailer, sizeof trailer);
  record.buffer.set_size(record_bytes);
  record.log = this;
  record.segment = active_;
  record.operation =
      io::Operation::write(segment.fd.get(), trailer.first_block * kBlockBytes, std::move(record.buffer));
  record.operation.cache_mode = segment.cache_mode;
  record.operation.wanted = &io::kNobodyWaits;
  record.operation.context = &record;
  record.operation.on_complete = [](io::Operation& operation, Result<std::uint64_t> bytes) {
    Append& self = *static_cast<Append*>(operation.context);
    self.log->end_append(self, std::move(bytes));
  };
  thread_.submit(record.operation);
}

void SegmentLog::end_append(Append& record, Result<std::uint64_t> bytes) {
  const std::shared_ptr<Segment> segment = std::move(record.segment);
  record.buffer = std::move(record.operation.buffer);
  segment->writes_in_flight.erase(segment->writes_in_flight.find(record.trailer.first_block));
  segment->unsynced = true;
  appends_in_flight_ -= 1;
  if (bytes) {
    state_.note_good_write();
    const IndexedRecord indexed = indexed_from(record.trailer);
    if (known_files_ && !record.moved_from) known_files_->add(indexed.identity_hash);
    segment->records.push_back(indexed);
    record.moved_from ? index_moved(*segment, record) : index_record(*segment, indexed);
    writes_.fetch_add(record.moved_from ? 0 : 1, std::memory_order_relaxed);
    (record.moved_from ? moved_bytes_ : write_bytes_).fetch_add(*bytes, std::memory_order_relaxed);
  } else {
    state_.note_write_error(bytes.error());
  }
  if (segment->sealed && segment->writes_in_flight.empty()) seal(*segment);
  record.on_done(record, bytes ? Status{} : Status(io::forward_error(std::move(bytes))));
  if (appends_in_flight_ == 0) run_quiet_tasks();
}

// The newest record of a name wins; the older one becomes dead weight.
void SegmentLog::index_record(Segment& segment, const IndexedRecord& record) {
  const std::uint32_t block = segment.place * blocks_per_segment_ + record.first_block;
  const RecordSlot slot{record_key(record.data_set_key, record.name_hash), record.payload_hash, record.identity_hash,
                        block, record.payload_bytes};
  const auto before = index_.insert(slot);
  if (record.data_set_key != data_set_.key) return;
  segment.useful_bytes.fetch_add(weight_of(slot));
  if (!before) return;
  if (const auto older = segment_of(*before)) older->useful_bytes.fetch_sub(weight_of(*before));
}

void SegmentLog::index_moved(Segment& segment, const Append& record) {
  RecordSlot moved = *record.moved_from;
  moved.block = segment.place * blocks_per_segment_ + record.trailer.first_block;
  if (!index_.replace(*record.moved_from, moved)) return;  // it was dropped meanwhile
  segment.useful_bytes.fetch_add(weight_of(moved));
  if (const auto from = segment_of(*record.moved_from)) from->useful_bytes.fetch_sub(weight_of(moved));
}

// The I/O thread: room.

bool SegmentLog::has_room(std::uint32_t blocks) const {
  return active_ != nullptr && active_->next_block + blocks <= blocks_per_segment_;
}

Status SegmentLog::make_room_for(std::uint32_t blocks) {
  if (!state_.finishes_records()) {
    return io::make_error(ErrorCode::kNoSpace, fmt::format("tier {}: takes nothing now", folder_.path()));
  }
  if (has_room(blocks)) return {};
  if (active_ != nullptr) seal(*std::exchange(active_, nullptr));
  return add_segment();
}

// The index file is saved once the last write into the segment has ended.
void SegmentLog::seal(Segment& segment) {
  segment.sealed = true;
  if (!segment.writes_in_flight.empty()) return;
  if (auto saved = save_segment_index(folder_, segment, false); !saved) state_.note_write_error(saved.error());
}

Status SegmentLog::add_segment() {
  measure_room();
  if (segments().size() >= segments_allowed_.load() && !remove_least_useful()) {
    segments_allowed_.load() < segments_max_ ? state_.note_short(keep_free_bytes_) : state_.note_full();
    return io::make_error(ErrorCode::kNoSpace, fmt::format("tier {}: full", folder_.path()));
  }
  auto segment = std::make_shared<Segment>();
  segment->number = next_number_++;
  segment->counted_at = known_files_ ? known_files_->changes() : 0;
  Status made = open_segment_file(folder_, *segment, true);
  if (made) made = reserve_blocks(folder_, *segment);
  if (!made) {
    if (segment->fd.valid()) folder_.remove_file(segment_name(segment->number));
    state_.note_write_error(made.error());
    return made;
  }
  threads_.register_file(segment->fd.get());
  active_ = segment;
  {
    MutexLock lock(mutex_);
    auto free_place = std::find(segments_.begin(), segments_.end(), nullptr);
    if (free_place == segments_.end()) free_place = segments_.insert(free_place, nullptr);
    segment->place = static_cast<std::uint32_t>(free_place - segments_.begin());
    *free_place = std::move(segment);
  }
  if (evicting_.load() && segments().size() >= segments_allowed_.load() && clean_ && can_gain_by_cleaning()) clean_();
  return {};
}

// A segment that is nearly full of what is wanted would be written once more, and no room gained. There is no other
// where the tier has shrunk (keep_free): then the next segment takes the place of the least useful one.
bool SegmentLog::can_gain_by_cleaning() {
  const std::shared_ptr<Segment> worst = least_useful();
  const std::uint64_t most = folder_.label().segment_bytes / kDeadParts * (kDeadParts - 1);
  return worst != nullptr && worst->useful_bytes.load() <= static_cast<std::int64_t>(most);
}

// How many segments the file system has room for beside what is to stay free of it. A segment takes all of its room
// when it is made, so that nothing is used up between two looks by the tier itself. One is made only where there is
// room for another: else a tier whose neighbours write some and remove some would lose a segment and fill one, again
// and again.
void SegmentLog::measure_room() {
  struct statvfs status {};
  if (keep_free_bytes_ == 0 || ::fstatvfs(folder_.fd(), &status) != 0) return;
  const std::uint64_t segment_bytes = folder_.label().segment_bytes;
  const std::uint64_t free_bytes = std::uint64_t{status.f_bavail} * status.f_frsize;
  const std::uint64_t present = segments().size();
  std::uint64_t allowed = 0;
  if (free_bytes >= keep_free_bytes_) {
    const std::uint64_t spare = (free_bytes - keep_free_bytes_) / segment_bytes;
    allowed = present + (spare > 0 ? spare - 1 : 0);
  } else {
    const std::uint64_t too_many = (keep_free_bytes_ - free_bytes + segment_bytes - 1) / segment_bytes;
    allowed = present - std::min(present, too_many);
  }
  segments_allowed_.store(static_cast<std::uint32_t>(std::min<std::uint64_t>(allowed, segments_max_)));
}

// New records wait until it is done, and nothing is being cleaned then.
void SegmentLog::keep_free() {
  measure_room();
  const std::size_t present = segments().size();
  if (present < segments_allowed_.load()) state_.note_space();
  if (present <= segments_allowed_.load() || gives_back_) return;
  gives_back_ = true;
  run_when_quiet([this] { give_back(); });
}

// Others have taken space. The segment that is being filled goes last.
void SegmentLog::give_back() {
  gives_back_ = false;
  measure_room();
  std::size_t gone = 0;
  for (std::size_t left = segments().size(); left > segments_allowed_.load(); --left, ++gone) {
    if (left == 1 && active_ != nullptr) seal(*std::exchange(active_, nullptr));
    const std::shared_ptr<Segment> worst = least_useful();
    if (worst == nullptr) break;
    remove(*worst);
  }
  if (gone == 0) return;
  io::log_info("tier {}: {} segments went, so that {} MiB of its file system stay free", folder_.path(), gone,
               keep_free_bytes_ >> 20);
  if (!evicting_.load()) state_.note_short(keep_free_bytes_);
}

// Each is counted anew before it is chosen, where files have changed since: each segment once, and no record is read.
std::shared_ptr<Segment> SegmentLog::least_useful() {
  while (true) {
    std::shared_ptr<Segment> worst;
    for (const auto& segment : segments()) {
      if (segment == active_ || !segment->writes_in_flight.empty()) continue;
      if (worst == nullptr || segment->useful_bytes.load() < worst->useful_bytes.load()) worst = segment;
    }
    const std::uint64_t changes = known_files_ ? known_files_->changes() : 0;
    if (worst == nullptr || worst->counted_at == changes) return worst;
    worst->counted_at = changes;
    count_use(*worst);
  }
}

void SegmentLog::count_use(Segment& segment) {
  const std::vector<IndexedRecord> listed = listed_in(segment);
  if (listed.empty()) return;  // its index file is lost
  std::int64_t useful = 0;
  for (const IndexedRecord& record : listed) {
    const auto slot = slot_in(segment, record);
    if (slot && record.data_set_key == data_set_.key) useful += weight_of(*slot);
  }
  segment.useful_bytes.store(useful);
}

// Where records are evicted this is the way from a tier that never evicted, and has no free segment to clean with.
bool SegmentLog::remove_least_useful() {
  const std::shared_ptr<Segment> worst = least_useful();
  if (worst == nullptr) return false;
  const bool useful = worst->useful_bytes.load() * 2 >= static_cast<std::int64_t>(folder_.label().segment_bytes);
  if (useful && !evicting_.load()) return false;
  remove(*worst);
  return true;
}

// What was written to the segment, from its index file once it is sealed; empty where that is lost.
std::vector<IndexedRecord> SegmentLog::listed_in(const Segment& segment) const {
  if (!segment.records.empty()) return segment.records;
  Segment saved;  // what the sealed segment itself no longer has in memory
  saved.number = segment.number;
  if (!load_segment_index(folder_, saved) || !saved.sealed) return {};
  return std::move(saved.records);
}

// nullopt: the record lies elsewhere by now, or was dropped.
std::optional<RecordSlot> SegmentLog::slot_in(const Segment& segment, const IndexedRecord& record) const {
  auto slot = index_.find(record_key(record.data_set_key, record.name_hash));
  const std::uint64_t block = std::uint64_t{segment.place} * blocks_per_segment_ + record.first_block;
  return slot && slot->block == block ? slot : std::nullopt;
}

// From what the segment's index file says, so that it costs the segment's records and not the tier's.
std::vector<RecordSlot> SegmentLog::records_in(const Segment& segment) const {
  const std::vector<IndexedRecord> listed = listed_in(segment);
  if (listed.empty()) {
    const std::uint64_t first_block = std::uint64_t{segment.place} * blocks_per_segment_;
    return index_.slots_in(first_block, first_block + blocks_per_segment_);
  }
  std::vector<RecordSlot> held;
  for (const IndexedRecord& record : listed) {
    if (const auto slot = slot_in(segment, record)) held.push_back(*slot);
  }
  return held;
}

// The index first: a segment without one is scanned, an index without its segment would mislead.
void SegmentLog::remove_files(std::uint32_t number) const {
  folder_.remove_file(segment_index_name(number));
  folder_.remove_file(segment_name(number));
}

// Reads under way keep the file open; what they get is checked against its hash as ever.
void SegmentLog::remove(const Segment& removed) {
  std::shared_ptr<Segment> segment;
  {
    MutexLock lock(mutex_);
    segment = std::exchange(segments_[removed.place], nullptr);
  }
  std::size_t records = 0;
  for (const RecordSlot& slot : records_in(*segment)) records += index_.erase(slot) ? 1 : 0;
  removed_records_.fetch_add(records, std::memory_order_relaxed);
  used_blocks_.fetch_sub(segment->next_block);
  remove_files(segment->number);
  threads_.unregister_file(segment->fd.get(), segment);
  io::log_info("tier {}: segment {} made room; {} records of it were still known", folder_.path(), segment->number,
               records);
}

// The I/O thread: pauses and checkpoints.

void SegmentLog::pause() {
  paused_ = true;
  appends_in_flight_ += 1;
}

void SegmentLog::resume() {
  paused_ = false;
  appends_in_flight_ -= 1;
  if (appends_in_flight_ == 0) return run_quiet_tasks();
  if (when_quiet_.empty()) begin_held_back();
}

void SegmentLog::run_when_quiet(std::function<void()> task) {
  if (appends_in_flight_ == 0) return task();
  when_quiet_.push_back(std::move(task));
}

void SegmentLog::run_quiet_tasks() {
  for (auto& task : std::exchange(when_quiet_, {})) task();
  begin_held_back();
}

void SegmentLog::begin_held_back() {
  const bool closed = state_.is_closed();
  for (Append* record : std::exchange(held_back_, {})) {
    if (!closed) {
      append(*record);
    } else {
      record->on_done(*record, io::make_error(ErrorCode::kCancelled, "tier " + folder_.path()));
    }
  }
}

// Goes on after an error, so that one damaged segment does not keep the others from being saved. Returns the first.
Status SegmentLog::checkpoint(bool sync) {
  Status outcome;
  for (const auto& segment : segments()) {
    Status saved;
    if (segment->index_dirty) saved = save_segment_index(folder_, *segment, sync);
    if (saved && sync && segment->unsynced) saved = sync_segment(folder_, *segment);
    if (!saved && outcome) outcome = std::move(saved);
  }
  if (sync && ::fsync(folder_.fd()) != 0 && outcome) {
    outcome = io::system_error(errno, "sync tier " + folder_.path());
  }
  return outcome;
}

}  // namespace headrace::cache
