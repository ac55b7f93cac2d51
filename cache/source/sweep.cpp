// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/sweep.h"

#include <algorithm>
#include <utility>

#include <pthread.h>

#include "headrace/cache/source/source.h"

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
    const bool is_wanted = read.wanted != nullptr && read.wanted->load(std::memory_order_relaxed);  // by now
    if (meter_.seeks() && !is_wanted) {
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
    if (in_flight_ >= kSweepInFlight || (batch_.empty() && waiting_.empty())) {
      changed_.wait(lock);
    } else if (batch_.empty()) {
      Batch batch = take_oldest();
      lock.unlock();
      sort_by_disk_offset(batch);
      lock.lock();
      batch_.assign(batch.begin(), batch.end());
      const Batch wanted = take_wanted();  // hurry() did not find these meanwhile
      lock.unlock();
      issue_all(wanted);
      lock.lock();
    } else {
      SourceRead& next = *batch_.front();
      batch_.pop_front();
      ++in_flight_;
      lock.unlock();
      options_.issue(next);
      lock.lock();
    }
  }
  // Nothing waits for its place any more.
  Batch rest(batch_.begin(), batch_.end());
  rest.insert(rest.end(), waiting_.begin(), waiting_.end());
  batch_.clear();
  waiting_.clear();
  in_flight_ += rest.size();
  lock.unlock();
  issue_all(rest);
}

void Sweep::hurry() {
  Batch wanted;
  {
    MutexLock lock(mutex_);
    wanted = take_wanted();
  }
  issue_all(wanted);
}

// However much is under way: somebody waits. They count as issued.
Sweep::Batch Sweep::take_wanted() {
  Batch wanted;
  for (auto* queue : {&batch_, &waiting_}) {
    std::erase_if(*queue, [&wanted](SourceRead* read) {
      const bool is_wanted = read->wanted != nullptr && read->wanted->load(std::memory_order_relaxed);
      if (is_wanted) wanted.push_back(read);
      return is_wanted;
    });
  }
  in_flight_ += wanted.size();
  return wanted;
}

void Sweep::issue_all(const Batch& batch) const {
  for (SourceRead* const read : batch) options_.issue(*read);
}

Sweep::Batch Sweep::take_oldest() {
  const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(kSweepBatch, waiting_.size()));
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

}  // namespace headrace::cache
