// SPDX-License-Identifier: Apache-2.0
// The tier as seen from outside: finding, reading and checking records, state and figures.
#include "headrace/cache/disk/disk_tier.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

using io::Error;
using io::ErrorCode;
using io::MutexLock;

// 16: a bad sector costs a few; a disk that fails all of them is gone.
constexpr std::uint64_t kReadErrorsMax = 16;

// One part in eight of the room is given up, so that no segment gained costs moving more than seven eighths of one.
constexpr std::uint64_t kDeadParts = 8;

}  // namespace

std::uint64_t hash_name(std::string_view path, std::uint32_t chunk) {
  return XXH3_64bits_withSeed(path.data(), path.size(), chunk);
}

std::uint64_t hash_identity(const Identity& identity) {
  static_assert(sizeof(Identity) == 24, "hashed as it lies in memory: no padding");
  return XXH3_64bits(&identity, sizeof identity);
}

std::uint64_t DiskTier::key_of(const RecordId& record) const {
  return record_key(options_.data_set.key, record.name_hash);
}

std::shared_ptr<Segment> DiskTier::segment_at(std::uint32_t block) const {
  const std::uint32_t place = block / blocks_per_segment_;
  MutexLock lock(mutex_);
  return place < segments_.size() ? segments_[place] : nullptr;
}

std::vector<std::shared_ptr<Segment>> DiskTier::segments() const {
  std::vector<std::shared_ptr<Segment>> present;
  MutexLock lock(mutex_);
  std::copy_if(segments_.begin(), segments_.end(), std::back_inserter(present),
               [](const auto& segment) { return segment != nullptr; });
  return present;
}

bool DiskTier::contains(const RecordId& record) const {
  if (state_.load(std::memory_order_relaxed) == State::kDropped) return false;
  const auto slot = index_.find(key_of(record));
  return slot && slot->identity_hash == hash_identity(record.identity);
}

std::optional<DiskTier::Found> DiskTier::look_up(const RecordId& record) {
  if (state_.load(std::memory_order_relaxed) == State::kDropped) return std::nullopt;
  const auto slot = index_.find(key_of(record));
  if (!slot) return std::nullopt;
  if (slot->identity_hash != hash_identity(record.identity)) {
    drop_record(*slot, stale_);
    return std::nullopt;
  }
  if (slot->payload_bytes != chunk_range(record.identity.size_bytes, record.chunk).length) {
    drop_record(*slot, corrupt_);
    return std::nullopt;
  }
  auto segment = segment_at(slot->block);
  if (segment == nullptr) return std::nullopt;  // removed since it was found
  return Found{*slot, std::move(segment)};
}

bool DiskTier::read(DiskRead& read) {
  std::optional<Found> found = look_up(read.record);
  if (!found) return false;
  read.tier = this;
  read.slot = found->slot;
  read.segment = std::move(found->segment);
  const std::uint64_t offset = (read.slot.block % blocks_per_segment_) * kBlockBytes;
  read.operation = io::Operation::read(read.segment->fd.get(), offset, read.slot.payload_bytes, std::move(read.buffer));
  read.operation.cache_mode = read.segment->cache_mode;
  read.operation.context = &read;
  read.operation.on_complete = [](io::Operation& operation, Result<std::uint64_t> bytes) {
    DiskRead& self = *static_cast<DiskRead*>(operation.context);
    self.tier->end_read(self, std::move(bytes));
  };
  thread_->submit(read.operation);
  return true;
}

void DiskTier::end_read(DiskRead& read, Result<std::uint64_t> bytes) {
  read.data = read.operation.data();
  read.buffer = std::move(read.operation.buffer);
  read.segment.reset();
  if (!bytes) {
    note_read_error(bytes.error());
    return read.on_done(read, io::forward_error(std::move(bytes)));
  }
  read_errors_in_a_row_.store(0, std::memory_order_relaxed);
  const bool intact =
      *bytes == read.slot.payload_bytes && hash_payload({read.data, read.slot.payload_bytes}) == read.slot.payload_hash;
  if (!intact) {
    // If the segment was removed and its place taken by another meanwhile, nothing is damaged.
    drop_record(read.slot, corrupt_);
    return read.on_done(read, io::make_error(ErrorCode::kCorrupt, "read from tier " + folder_.path()));
  }
  hits_.fetch_add(1, std::memory_order_relaxed);
  hit_bytes_.fetch_add(*bytes, std::memory_order_relaxed);
  read.on_done(read, {});
}

// Counts only what this call took out of the index: each record is dropped once, whoever notices first.
void DiskTier::drop_record(const RecordSlot& slot, std::atomic<std::uint64_t>& counter) {
  if (!index_.erase(slot)) return;
  if (counter.fetch_add(1) == 0 && &counter == &corrupt_) {
    io::log_warning("tier {}: a record failed its checksum and is fetched again", folder_.path());
  }
  const auto segment = segment_at(slot.block);
  if (segment == nullptr) return;
  segment->useful_bytes.fetch_sub(static_cast<std::int64_t>(footprint_bytes(slot.payload_bytes)));
  reconsider_full(*segment);
}

void DiskTier::forget(const RecordId& record) {
  const auto slot = index_.find(key_of(record));
  if (slot) drop_record(*slot, evictions_);
}

void DiskTier::set_evicting(bool evicting) {
  if (evicting_.exchange(evicting) == evicting || !evicting) return;
  State full = State::kFull;
  state_.compare_exchange_strong(full, State::kOk);
}

// One segment is being filled and one is free, for cleaning.
std::uint64_t DiskTier::evicting_bytes() const {
  const std::uint64_t segments = segments_max_ > 2 ? segments_max_ - 2 : 0;
  return segments * folder_.label().segment_bytes / kDeadParts * (kDeadParts - 1);
}

// A full tier takes records again once one of its segments is worth less than half of its place.
void DiskTier::reconsider_full(const Segment& segment) {
  const auto segment_bytes = static_cast<std::int64_t>(folder_.label().segment_bytes);
  if (segment.useful_bytes.load() * 2 >= segment_bytes) return;
  State full = State::kFull;
  state_.compare_exchange_strong(full, State::kOk);
}

void DiskTier::note_read_error(const Error& error) {
  if (error.code == ErrorCode::kCancelled) return;
  errors_.fetch_add(1, std::memory_order_relaxed);
  if (read_errors_in_a_row_.fetch_add(1) + 1 < kReadErrorsMax) return;
  if (state_.load() != State::kDropped) set_state(State::kDropped, error.message());
}

void DiskTier::stop_admission(const Error& error) {
  if (error.code == ErrorCode::kCancelled || state_.load() >= State::kDropped) return;
  errors_.fetch_add(1, std::memory_order_relaxed);
  const State state = error.code == ErrorCode::kNoSpace ? State::kNoSpace
                      : error.os_errno == EROFS         ? State::kReadOnly
                                                        : State::kWriteFailed;
  if (state_.load() != state) set_state(state, error.message());
}

void DiskTier::set_state(State state, std::string why) {
  state_.store(state);
  io::log_warning("tier {}: {}; {}", folder_.path(), why,
                  state == State::kDropped ? "it is not used any more" : "nothing is added, reads go on");
  MutexLock lock(mutex_);
  why_ = std::move(why);
}

bool DiskTier::admits(std::uint64_t payload_bytes) const {
  return state_.load(std::memory_order_relaxed) == State::kOk &&
         footprint_bytes(payload_bytes) <= folder_.label().segment_bytes;
}

Status DiskTier::flush() {
  std::promise<Status> promise;
  thread_->post([this, &promise] {
    run_when_quiet([this, &promise] {
      Status outcome;
      checkpoint(true, outcome);
      promise.set_value(std::move(outcome));
    });
  });
  return promise.get_future().get();
}

void DiskTier::close() {
  const State before = state_.exchange(State::kClosed);
  if (before == State::kClosed || before == State::kDropped || thread_ == nullptr) return;
  auto promise = std::make_shared<std::promise<void>>();
  auto saved = promise->get_future();
  thread_->post([this, promise] {
    run_when_quiet([this, promise] {
      Status ignored;  // what is not in the index file is found by a scan
      checkpoint(false, ignored);
      promise->set_value();
    });
  });
  // 5 s: the bound on pending writes takes one on any disk that works.
  saved.wait_for(std::chrono::seconds(5));
}

void DiskTier::settle() {
  std::promise<void> reached;
  thread_->post([&reached] { reached.set_value(); });
  reached.get_future().wait();
}

void DiskTier::join() {
  for (const auto& segment : segments()) thread_->unregister_file(segment->fd.get());
  thread_.reset();
}

DiskTier::~DiskTier() {
  close();
}

TierStats DiskTier::stats() const {
  TierStats stats;
  stats.kind = kind();
  stats.path = folder_.path();
  stats.budget_bytes = options_.tier.budget_bytes;
  stats.used_bytes = used_blocks_.load() * kBlockBytes;
  stats.samples = index_.size();
  stats.hits = hits_.load();
  stats.hit_bytes = hit_bytes_.load();
  stats.writes = writes_.load();
  stats.write_bytes = write_bytes_.load();
  stats.moved_bytes = moved_bytes_.load();
  stats.evictions = evictions_.load();
  stats.errors = errors_.load();
  stats.corrupt = corrupt_.load() + stale_.load();
  static constexpr const char* kNames[] = {
      "ok", "full", "no space: ", "read-only: ", "write failed: ", "dropped: ", "closed"};
  const State state = state_.load();
  stats.state = kNames[static_cast<std::size_t>(state)];
  if (stats.state.ends_with(' ')) {
    MutexLock lock(mutex_);
    stats.state += why_;
  }
  return stats;
}

}  // namespace headrace::cache
