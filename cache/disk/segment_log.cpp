// SPDX-License-Identifier: Apache-2.0
// Appending. Everything here runs on the tier's I/O thread, so that places are given out in order without a lock.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include "headrace/cache/disk/disk_tier.h"
#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

using io::Error;
using io::ErrorCode;
using io::MutexLock;

// Before the trailer; returns its hash.
std::uint64_t append_piece_table(std::span<const std::byte> payload, std::byte* trailer_at, std::uint64_t salt) {
  std::vector<std::uint64_t> hashes;
  for (std::size_t at = 0; at < payload.size(); at += kPieceBytes) {
    hashes.push_back(hash_payload(payload.subspan(at, std::min<std::size_t>(kPieceBytes, payload.size() - at))));
  }
  const std::size_t bytes = hashes.size() * sizeof(std::uint64_t);
  std::memcpy(trailer_at - bytes, hashes.data(), bytes);
  return XXH3_64bits_withSeed(hashes.data(), bytes, salt);
}

}  // namespace

// One record on its way to the disk. Ownership: its own, from write() to end_write().
struct DiskTier::Write {
  DiskTier& tier;
  Holding& holding;
  RecordId record;
  std::function<void(Status)> done;
  std::shared_ptr<Segment> segment = {};
  IndexedRecord indexed = {};
  io::Operation operation = {};
};

void DiskTier::write(Holding& holding, const RecordId& record, std::function<void(Status)> done) {
  pending_bytes_.fetch_add(holding.cost_bytes);
  auto* write = new Write{*this, holding, record, std::move(done)};
  thread_->post([this, write] { begin_write(write); });
}

void DiskTier::begin_write(Write* write) {
  // A flush ends even while others go on writing.
  if (!when_quiet_.empty() || cleaning_ != nullptr) return held_back_.push_back(write);
  const std::uint32_t blocks = blocks_of(write->holding.size);
  if (auto room = make_room_for(blocks); !room) return answer_write(write, std::move(room));
  if (cleaning_ != nullptr) return held_back_.push_back(write);  // making room began it
  if (!has_room(blocks)) return begin_write(write);              // it began and ended at once, and others took the room
  take_place(*write);
  append_trailer(*write);
  Segment& segment = *write->segment;
  write->operation = io::Operation::write(segment.fd.get(), write->indexed.first_block * kBlockBytes,
                                          std::move(write->holding.buffer));
  write->operation.cache_mode = segment.cache_mode;
  write->operation.context = write;
  write->operation.on_complete = [](io::Operation& operation, Result<std::uint64_t> bytes) {
    auto* self = static_cast<Write*>(operation.context);
    self->tier.end_write(self, std::move(bytes));
  };
  thread_->submit(write->operation);
}

void DiskTier::take_place(Write& write) {
  write.segment = active_;
  write.indexed.first_block = take_blocks(blocks_of(write.holding.size));
  writes_in_flight_ += 1;
}

std::uint32_t DiskTier::take_blocks(std::uint32_t blocks) {
  const std::uint32_t first_block = active_->next_block;
  active_->next_block += blocks;
  active_->writes_in_flight.insert(first_block);
  active_->index_dirty = true;
  used_blocks_.fetch_add(blocks);
  return first_block;
}

// Behind the payload the buffer has room for zeros and the trailer; readers of the payload do not look there.
void DiskTier::append_trailer(Write& write) {
  Holding& holding = write.holding;
  const Identity& identity = write.record.identity;
  IndexedRecord& indexed = write.indexed;
  indexed.data_set_key = options_.data_set.key;
  indexed.name_hash = write.record.name_hash;
  indexed.identity_hash = hash_identity(identity);
  indexed.payload_hash = hash_payload(holding.content());
  indexed.payload_bytes = static_cast<std::uint32_t>(holding.size);

  RecordTrailer trailer;
  trailer.data_set_key = indexed.data_set_key;
  trailer.name_hash = indexed.name_hash;
  trailer.identity_hash = indexed.identity_hash;
  trailer.payload_hash = indexed.payload_hash;
  trailer.payload_bytes = indexed.payload_bytes;
  trailer.segment = write.segment->number;
  trailer.first_block = indexed.first_block;
  trailer.chunk = write.record.chunk;
  trailer.file_bytes = identity.size_bytes;
  trailer.mtime_ns = identity.mtime_ns;
  trailer.inode = identity.inode;

  HEADRACE_ASSERT(holding.data == holding.buffer.data());  // read from a block's start, by source and tier alike
  const std::size_t record_bytes = blocks_of(holding.size) * kBlockBytes;
  std::byte* trailer_at = holding.data + record_bytes - sizeof trailer;
  std::fill(holding.data + holding.size, trailer_at, std::byte{0});
  const std::uint64_t salt = folder_.label().salt;
  const bool in_pieces = is_chunked(identity.size_bytes) && has_pieces(holding.size);
  if (in_pieces) trailer.pieces_hash = append_piece_table(holding.content(), trailer_at, salt);
  trailer.hash = trailer_hash(trailer, salt);
  std::memcpy(trailer_at, &trailer, sizeof trailer);
  holding.buffer.set_size(record_bytes);
}

void DiskTier::end_write(Write* write, Result<std::uint64_t> bytes) {
  Segment& segment = *write->segment;
  segment.writes_in_flight.erase(segment.writes_in_flight.find(write->indexed.first_block));
  writes_in_flight_ -= 1;
  write->holding.buffer = std::move(write->operation.buffer);
  segment.unsynced = true;
  if (bytes) {
    segment.records.push_back(write->indexed);
    index_record(segment, write->indexed);
    writes_.fetch_add(1, std::memory_order_relaxed);
    write_bytes_.fetch_add(*bytes, std::memory_order_relaxed);
  }
  if (segment.sealed && segment.writes_in_flight.empty()) {
    if (auto saved = save_segment_index(folder_, segment, false); !saved) stop_admission(saved.error());
  }
  if (!bytes) stop_admission(bytes.error());
  answer_write(write, bytes ? Status{} : Status(io::forward_error(std::move(bytes))));
  if (writes_in_flight_ == 0) run_quiet_tasks();
}

void DiskTier::answer_write(Write* write, Status status) {
  pending_bytes_.fetch_sub(write->holding.cost_bytes);
  ram_.unpin_written(write->holding);
  if (write->done) write->done(std::move(status));
  delete write;
}

void DiskTier::run_quiet_tasks() {
  for (auto& task : std::exchange(when_quiet_, {})) task();
  begin_held_back();
}

void DiskTier::begin_held_back() {
  const bool closed = state_.load() == State::kClosed;
  for (Write* write : std::exchange(held_back_, {})) {
    closed ? answer_write(write, io::make_error(ErrorCode::kCancelled, "tier " + folder_.path())) : begin_write(write);
  }
}

bool DiskTier::has_room(std::uint32_t blocks) const {
  return active_ != nullptr && active_->next_block + blocks <= blocks_per_segment_;
}

Status DiskTier::make_room_for(std::uint32_t blocks) {
  const State state = state_.load();
  if (state != State::kOk && state != State::kClosed) {
    return io::make_error(ErrorCode::kNoSpace, fmt::format("tier {}: takes nothing now", folder_.path()));
  }
  if (has_room(blocks)) return {};
  seal_active();
  return add_segment();
}

void DiskTier::seal_active() {
  if (active_ == nullptr) return;
  active_->sealed = true;
  if (active_->writes_in_flight.empty()) {
    if (auto saved = save_segment_index(folder_, *active_, false); !saved) stop_admission(saved.error());
  }
  active_.reset();
}

Status DiskTier::add_segment() {
  if (segments().size() >= segments_max_ && !remove_least_useful()) {
    State ok = State::kOk;
    if (state_.compare_exchange_strong(ok, State::kFull)) io::log_info("tier {}: full", folder_.path());
    return io::make_error(ErrorCode::kNoSpace, fmt::format("tier {}: full", folder_.path()));
  }
  auto segment = std::make_shared<Segment>();
  segment->number = next_number_++;
  Status made = open_segment_file(folder_, *segment, true);
  if (made) made = reserve_blocks(folder_, *segment);
  if (!made) {
    if (segment->fd.valid()) folder_.remove_file(segment_name(segment->number));
    stop_admission(made.error());
    return made;
  }
  thread_->register_file(segment->fd.get());
  active_ = segment;
  MutexLock lock(mutex_);
  auto place = std::find(segments_.begin(), segments_.end(), nullptr);
  segment->place = static_cast<std::uint32_t>(place - segments_.begin());
  if (place == segments_.end()) {
    segments_.push_back(std::move(segment));
  } else {
    *place = std::move(segment);
  }
  lock.unlock();
  if (evicting_.load() && segments().size() >= segments_max_) start_cleaning();
  return {};
}

std::shared_ptr<Segment> DiskTier::least_useful() const {
  std::shared_ptr<Segment> worst;
  for (const auto& segment : segments()) {
    if (segment == active_ || !segment->writes_in_flight.empty()) continue;
    if (worst == nullptr || segment->useful_bytes.load() < worst->useful_bytes.load()) worst = segment;
  }
  return worst;
}

// Where records are evicted this is the way from a tier that never evicted, and has no free segment to clean with.
bool DiskTier::remove_least_useful() {
  const std::shared_ptr<Segment> worst = least_useful();
  if (worst == nullptr) return false;
  const bool useful = worst->useful_bytes.load() * 2 >= static_cast<std::int64_t>(folder_.label().segment_bytes);
  if (useful && !evicting_.load()) return false;
  remove_segment(worst->place);
  return true;
}

// Reads under way keep the file open; what they get is checked against its hash as ever.
void DiskTier::remove_segment(std::uint32_t place) {
  std::shared_ptr<Segment> segment;
  {
    MutexLock lock(mutex_);
    segment = std::exchange(segments_[place], nullptr);
  }
  const std::size_t records = index_.erase_blocks(place * blocks_per_segment_, (place + 1) * blocks_per_segment_);
  evictions_.fetch_add(records, std::memory_order_relaxed);
  used_blocks_.fetch_sub(segment->next_block);
  // The index first: a segment without one is scanned, an index without its segment would mislead.
  folder_.remove_file(segment_index_name(segment->number));
  folder_.remove_file(segment_name(segment->number));
  if (thread_ != nullptr) {
    thread_->unregister_file(segment->fd.get());
    thread_->post([segment] {});  // the descriptor stays open until it is unregistered
  }
  io::log_info("tier {}: segment {} made room; {} records of it were still known", folder_.path(), segment->number,
               records);
}

void DiskTier::run_when_quiet(std::function<void()> task) {
  if (writes_in_flight_ == 0) return task();
  when_quiet_.push_back(std::move(task));
}

Status DiskTier::sync_segment(Segment& segment) {
  if (::fdatasync(segment.fd.get()) != 0) {
    return io::system_error(errno, fmt::format("sync {}/{}", folder_.path(), segment_name(segment.number)));
  }
  segment.unsynced = false;
  return {};
}

void DiskTier::checkpoint(bool sync, Status& outcome) {
  for (const auto& segment : segments()) {
    Status saved;
    if (segment->index_dirty) saved = save_segment_index(folder_, *segment, sync);
    if (saved && sync && segment->unsynced) saved = sync_segment(*segment);
    if (!saved && outcome) outcome = std::move(saved);
  }
  if (sync && ::fsync(folder_.fd()) != 0 && outcome) outcome = io::system_error(errno, "sync tier " + folder_.path());
}

}  // namespace headrace::cache
