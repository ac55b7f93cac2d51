// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/sweep.h"

#include <algorithm>
#include <utility>

#include <pthread.h>

namespace headrace::cache {
namespace {

using io::MutexLock;

// Long enough for a mean, short enough to notice within a second or two that a device has become slow.
constexpr unsigned kWindowReads = 128;
// A turn of the fastest disks takes 4 ms, and a disk that sorts 32 requests by itself answers some 300 per second.
constexpr std::chrono::milliseconds kSeeklessWindow{kWindowReads};  // 1000 reads per second
// With so many under way a device that takes 8 ms for each, as one behind a network may, still ends 1000 per second.
constexpr std::size_t kBusyReads = 8;

}  // namespace

void SeekMeter::on_read(TimePoint now, std::size_t left) {
  if (busy_) {
    busy_time_ += now - last_end_;
    ++reads_;
  }
  busy_ = left >= kBusyReads;
  last_end_ = now;
  if (reads_ < kWindowReads) return;
  seeks_ = busy_time_ > kSeeklessWindow;
  busy_time_ = {};
  reads_ = 0;
}

Sweep::Sweep(Options options)
    : options_(std::move(options)), sorts_(options_.seeks_at_first), meter_(options_.seeks_at_first) {
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "hr-sweep");
    run();
  });
}

void Sweep::close() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Sweep::add(SourceRead& read) {
  {
    MutexLock lock(mutex_);
    if (meter_.seeks()) {
      waiting_.push_back(&read);
      changed_.notify_one();
      return;
    }
    ++in_flight_;
  }
  options_.issue(read);
}

void Sweep::on_done() {
  const auto now = std::chrono::steady_clock::now();
  MutexLock lock(mutex_);
  --in_flight_;
  meter_.on_read(now, in_flight_);
  const bool seeks = meter_.seeks();
  const bool is_new = sorts_.exchange(seeks, std::memory_order_relaxed) != seeks;
  if (in_flight_ + 1 == kSweepInFlight) changed_.notify_one();
  lock.unlock();
  if (is_new) options_.on_verdict(seeks);
}

void Sweep::run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (waiting_.empty() || in_flight_ >= kSweepInFlight) {
      changed_.wait(lock);
      continue;
    }
    Batch batch = take_oldest(kSweepBatch);
    lock.unlock();
    sort_by_disk_offset(batch);
    issue_when_there_is_room(batch);
    lock.lock();
  }
  const Batch rest = take_oldest(waiting_.size());
  lock.unlock();
  issue_when_there_is_room(rest);  // which nothing waits for any more
}

Sweep::Batch Sweep::take_oldest(std::size_t count) {
  const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(count, waiting_.size()));
  Batch batch(waiting_.begin(), end);
  waiting_.erase(waiting_.begin(), end);
  return batch;
}

// Looking offsets up costs no extra seek: it brings in the inodes, which the reads need anyway. Meanwhile the disk is
// busy with what is left of the last batch.
void Sweep::sort_by_disk_offset(Batch& batch) const {
  if (batch.size() == 1) return;
  std::vector<std::pair<std::uint64_t, SourceRead*>> placed;
  placed.reserve(batch.size());
  for (SourceRead* const read : batch) placed.emplace_back(options_.disk_offset_of(*read).value_or(0), read);
  std::ranges::stable_sort(placed, {}, &std::pair<std::uint64_t, SourceRead*>::first);
  std::ranges::transform(placed, batch.begin(), &std::pair<std::uint64_t, SourceRead*>::second);
}

void Sweep::issue_when_there_is_room(const Batch& batch) {
  for (SourceRead* const read : batch) {
    MutexLock lock(mutex_);
    while (in_flight_ >= kSweepInFlight && !stopping_) changed_.wait(lock);
    ++in_flight_;
    lock.unlock();
    options_.issue(*read);
  }
}

}  // namespace headrace::cache
