// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/keep/next_uses.h"

#include <algorithm>
#include <utility>

#include "headrace/cache/policy.h"

namespace headrace::cache {
namespace {

// One of four ranks meets 99 % of what it will ever read again within 16 epochs.
constexpr std::size_t kEpochsAhead = 16;
// 128 MiB of positions; at least two epochs whatever they take, for less than that decides nothing.
constexpr std::uint64_t kPositionsMax = 16ULL << 20;
constexpr std::size_t kEpochsAtLeast = 2;

}  // namespace

NextUses::NextUses(const Order& order, std::uint64_t sample_count, std::uint64_t epoch)
    : order_(order), first_(sample_count + 1, 0), taken_(sample_count, 0) {
  enter(epoch);
}

void NextUses::enter(std::uint64_t epoch) {
  while (!epochs_.empty() && epochs_.front().number != epoch) {
    base_ += epochs_.front().samples.size();
    epochs_.pop_front();
  }
  now_ = std::max(now_, base_);
  draw_ahead(epoch);
  list_uses();
}

void NextUses::draw_ahead(std::uint64_t epoch) {
  std::uint64_t positions = 0;
  for (const Epoch& each : epochs_) positions += each.samples.size();
  while (epochs_.size() < kEpochsAhead) {
    if (epochs_.size() >= kEpochsAtLeast && positions >= kPositionsMax) return;
    const std::uint64_t number = epochs_.empty() ? epoch : epochs_.back().number + 1;
    Result<std::vector<SampleIndex>> samples = order_.epoch(number);
    if (!samples || samples->empty()) return;  // the last one
    positions += samples->size();
    epochs_.push_back({number, std::move(*samples)});
  }
}

// A counting sort: how many uses each sample has, where they begin, then each in its place.
void NextUses::list_uses() {
  std::fill(first_.begin(), first_.end(), 0);
  for (const Epoch& epoch : epochs_) {
    for (const SampleIndex sample : epoch.samples) ++first_[sample + 1];
  }
  for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  uses_.resize(first_.back());
  std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
  std::uint32_t time = 0;
  for (const Epoch& epoch : epochs_) {
    for (const SampleIndex sample : epoch.samples) uses_[next[sample]++] = time++;
  }
}

std::span<const std::uint32_t> NextUses::uses_of(SampleIndex sample) const {
  return std::span(uses_).subspan(first_[sample], first_[sample + 1] - first_[sample]);
}

const std::uint32_t* NextUses::find_upcoming(SampleIndex sample) const {
  const std::span<const std::uint32_t> uses = uses_of(sample);
  const std::uint64_t taken = taken_[sample] - std::min(base_, taken_[sample]);
  return std::lower_bound(uses.data(), uses.data() + uses.size(), taken);
}

std::uint64_t NextUses::take(SampleIndex sample) {
  const std::uint32_t* use = find_upcoming(sample);
  const std::uint32_t* const end = uses_.data() + first_[sample + 1];
  if (use == end) return kNeverUsed;
  taken_[sample] = base_ + *use + 1;
  now_ = std::max(now_, taken_[sample]);
  return ++use == end ? kNeverUsed : base_ + *use;
}

std::uint64_t NextUses::upcoming(SampleIndex sample) const {
  const std::uint32_t* const use = find_upcoming(sample);
  return use == uses_.data() + first_[sample + 1] ? kNeverUsed : base_ + *use;
}

}  // namespace headrace::cache
