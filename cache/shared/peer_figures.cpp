// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/peer_figures.h"

#include <algorithm>
#include <bit>

namespace headrace::cache {
namespace {

std::int64_t this_second() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace

void PeerFigures::note_get(Outcome outcome, std::uint64_t bytes, std::chrono::nanoseconds took) {
  if (outcome == Outcome::kFailed) return add(errors_);
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  const auto width =
      static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(0, microseconds))));
  add(took_[std::min(width, kBuckets - 1)]);
  if (outcome == Outcome::kDone) {
    add(hits_);
    add(hit_bytes_, bytes);
    note_given(bytes, this_second());
    return;
  }
  if (outcome == Outcome::kWrong) add(corrupt_);  // it is stored anew
  add(misses_);
}

void PeerFigures::note_put(Outcome outcome, std::uint64_t bytes) {
  if (outcome == Outcome::kFailed) return add(errors_);
  full_.store(outcome == Outcome::kFull, std::memory_order_relaxed);
  if (outcome != Outcome::kDone) return;
  add(writes_);
  add(write_bytes_, bytes);
}

void PeerFigures::note_given(std::uint64_t bytes, std::int64_t second) {
  Second& slot = seconds_[static_cast<std::size_t>(second) % seconds_.size()];
  if (slot.number.load(std::memory_order_relaxed) != second) {
    slot.bytes.store(0, std::memory_order_relaxed);
    slot.number.store(second, std::memory_order_relaxed);
  }
  add(slot.bytes, bytes);
}

double PeerFigures::bytes_per_second(std::int64_t second) const {
  std::uint64_t bytes = 0;
  for (const Second& slot : seconds_) {
    const std::int64_t number = slot.number.load(std::memory_order_relaxed);
    if (number >= second - kRateSeconds && number < second) bytes += slot.bytes.load(std::memory_order_relaxed);
  }
  return static_cast<double>(bytes) / kRateSeconds;
}

// The upper end of the bucket in which that part of all answers lies.
double PeerFigures::seconds_at(double part) const {
  std::array<std::uint64_t, kBuckets> counts = {};
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) all += counts[i] = took_[i].load(std::memory_order_relaxed);
  if (all == 0) return 0;
  std::uint64_t seen = 0;
  std::size_t bucket = 0;
  while (bucket + 1 < kBuckets) {
    seen += counts[bucket];
    if (static_cast<double>(seen) >= part * static_cast<double>(all)) break;
    ++bucket;
  }
  return static_cast<double>(1ULL << bucket) * 1e-6;
}

void PeerFigures::add_to(PeerStats& stats) const {
  const auto get = [](const Count& count) { return count.load(std::memory_order_relaxed); };
  stats.hits = get(hits_);
  stats.hit_bytes = get(hit_bytes_);
  stats.misses = get(misses_);
  stats.waits = get(waits_);
  stats.writes = get(writes_);
  stats.write_bytes = get(write_bytes_);
  stats.errors = get(errors_);
  stats.corrupt = get(corrupt_);
  stats.seconds_p50 = seconds_at(0.5);
  stats.seconds_p99 = seconds_at(0.99);
  stats.bytes_per_second = bytes_per_second(this_second());
}

}  // namespace headrace::cache
