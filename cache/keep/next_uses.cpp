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

void draw_epochs(const Order& order, std::uint64_t epoch, UsesAhead& ahead) {
  std::uint64_t positions = 0;
  for (const UsesAhead::Epoch& each : ahead.epochs) positions += each.samples->size();
  while (ahead.epochs.size() < kEpochsAhead) {
    if (ahead.epochs.size() >= kEpochsAtLeast && positions >= kPositionsMax) return;
    const std::uint64_t number = ahead.epochs.empty() ? epoch : ahead.epochs.back().number + 1;
    Result<std::vector<SampleIndex>> samples = order.epoch(number);
    if (!samples || samples->empty()) return;  // the last one
    positions += samples->size();
    ahead.epochs.push_back({number, std::make_shared<const std::vector<SampleIndex>>(std::move(*samples))});
  }
}

// A counting sort: how many uses each sample has, where they begin, then each in its place.
void list_uses(UsesAhead& ahead) {
  for (const UsesAhead::Epoch& epoch : ahead.epochs) {
    for (const SampleIndex sample : *epoch.samples) ++ahead.first[sample + 1];
  }
  for (std::size_t i = 1; i < ahead.first.size(); ++i) ahead.first[i] += ahead.first[i - 1];
  ahead.uses.resize(ahead.first.back());
  std::vector<std::uint32_t> next(ahead.first.begin(), ahead.first.end() - 1);
  std::uint32_t time = 0;
  for (const UsesAhead::Epoch& epoch : ahead.epochs) {
    for (const SampleIndex sample : *epoch.samples) ahead.uses[next[sample]++] = time++;
  }
}

}  // namespace

std::uint64_t UsesAhead::begin_of(std::uint64_t epoch) const {
  std::uint64_t time = base;
  for (const Epoch& each : epochs) {
    if (each.number == epoch) break;
    time += each.samples->size();
  }
  return time;
}

std::shared_ptr<const UsesAhead> draw_uses(const Order& order, std::uint64_t sample_count, std::uint64_t epoch,
                                           const UsesAhead* before) {
  auto ahead = std::make_shared<UsesAhead>();
  ahead->first.assign(sample_count + 1, 0);
  if (before != nullptr) {
    ahead->epochs = before->epochs;
    ahead->base = before->begin_of(epoch);
  }
  while (!ahead->epochs.empty() && ahead->epochs.front().number != epoch) ahead->epochs.pop_front();
  draw_epochs(order, epoch, *ahead);
  list_uses(*ahead);
  return ahead;
}

NextUses::NextUses(std::shared_ptr<const UsesAhead> ahead)
    : ahead_(std::move(ahead)), now_(ahead_->base), past_(ahead_->base), taken_(ahead_->sample_count(), 0) {}

void NextUses::pass_to(std::uint64_t time) {
  past_ = std::max(past_, time);
  now_ = std::max(now_, time);
}

void NextUses::enter(std::shared_ptr<const UsesAhead> ahead) {
  ahead_ = std::move(ahead);
  pass_to(ahead_->base);
}

std::span<const std::uint32_t> NextUses::upcoming_uses(SampleIndex sample) const {
  const auto uses =
      std::span(ahead_->uses).subspan(ahead_->first[sample], ahead_->first[sample + 1] - ahead_->first[sample]);
  const std::uint64_t taken = std::max(taken_[sample], past_) - ahead_->base;
  return uses.subspan(static_cast<std::size_t>(std::ranges::lower_bound(uses, taken) - uses.begin()));
}

std::uint64_t NextUses::take(SampleIndex sample) {
  const std::span<const std::uint32_t> uses = upcoming_uses(sample);
  if (uses.empty()) return kNeverUsed;
  taken_[sample] = ahead_->base + uses[0] + 1;
  now_ = std::max(now_, taken_[sample]);
  return uses.size() == 1 ? kNeverUsed : ahead_->base + uses[1];
}

std::uint64_t NextUses::upcoming(SampleIndex sample) const {
  const std::span<const std::uint32_t> uses = upcoming_uses(sample);
  return uses.empty() ? kNeverUsed : ahead_->base + uses[0];
}

}  // namespace headrace::cache
