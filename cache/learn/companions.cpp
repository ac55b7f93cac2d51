// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/companions.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace headrace::cache {
namespace {

// The samples that workers open side by side, and fewer where so many are a good part of all.
constexpr std::uint64_t kRecentMost = 64;
constexpr std::uint64_t kRecentShare = 32;
// Of pairs half of the opens are behind their companion. Chance gives one in kRecentShare.
constexpr int kTogetherLeast = 20;  // of 64
constexpr int kApartMost = 14;

class TogetherOrder final : public Order {
 public:
  TogetherOrder(std::shared_ptr<const Order> leader, Companions::Together together)
      : leader_(std::move(leader)), together_(std::move(together)) {
    std::string names = together_.leader.name;
    for (const SampleRange& other : together_.others) names += "+" + other.name;
    spec_ = fmt::format("together:{},of={}", names, leader_->spec());
  }

  [[nodiscard]] const std::string& spec() const override { return spec_; }
  [[nodiscard]] std::uint64_t length(std::uint64_t epoch) const override { return leader_->length(epoch) * files(); }
  [[nodiscard]] Result<std::vector<SampleIndex>> epoch(std::uint64_t epoch) const override {
    return with_companions(leader_->epoch(epoch));
  }
  [[nodiscard]] Result<std::vector<SampleIndex>> prefix(std::uint64_t epoch, std::uint64_t count) const override {
    const std::uint64_t turn = files() * ranks();
    auto samples = with_companions(leader_->prefix(epoch, (count + turn - 1) / turn * ranks()));
    if (samples && samples->size() > count) samples->resize(count);
    return samples;
  }
  [[nodiscard]] WorkerLayout workers() const override {
    WorkerLayout layout = leader_->workers();
    layout.batch *= static_cast<std::uint32_t>(files());
    return layout;
  }

 private:
  [[nodiscard]] std::uint64_t files() const { return 1 + together_.others.size(); }
  [[nodiscard]] std::uint64_t ranks() const { return std::max(leader_->workers().ranks, 1U); }
  // The leaders of all ranks, then their companions, so that position i stays one of rank i % ranks.
  [[nodiscard]] Result<std::vector<SampleIndex>> with_companions(Result<std::vector<SampleIndex>> leaders) const {
    if (!leaders) return leaders;
    std::vector<SampleIndex> samples;
    samples.reserve(leaders->size() * files());
    for (std::span<const SampleIndex> left = *leaders; !left.empty();) {
      const auto turn = left.first(std::min<std::size_t>(ranks(), left.size()));
      left = left.subspan(turn.size());
      samples.insert(samples.end(), turn.begin(), turn.end());
      for (const SampleRange& other : together_.others) {
        for (const SampleIndex sample : turn) samples.push_back(together_.companion(sample, other));
      }
    }
    return samples;
  }

  const std::shared_ptr<const Order> leader_;
  const Companions::Together together_;
  std::string spec_;
};

}  // namespace

Companions::Companions(std::span<const SampleRange> parts) {
  std::map<std::uint64_t, std::vector<SampleRange>> by_size;
  for (const SampleRange& part : parts) by_size[part.count].push_back(part);
  for (auto& [count, equal] : by_size) {
    if (equal.size() > 1 && count / kRecentShare > 0) parts_ = std::move(equal);
  }
  if (parts_.empty()) return;
  recent_.resize(std::min(kRecentMost, parts_[0].count / kRecentShare));
  first_.resize(parts_.size());
  later_.resize(parts_.size());
}

bool Companions::Together::contains(SampleIndex sample) const {
  return leader.contains(sample) ||
         std::ranges::any_of(others, [&](const SampleRange& other) { return other.contains(sample); });
}

void Companions::Together::append(SampleIndex sample, std::vector<SampleIndex>& samples) const {
  samples.push_back(sample);
  for (const SampleRange& other : others) samples.push_back(companion(sample, other));
}

void Companions::give_up() {
  together_.reset();
  parts_.clear();
}

bool Companions::on_open(SampleIndex sample) {
  const auto part = std::ranges::find_if(parts_, [&](const SampleRange& range) { return range.contains(sample); });
  if (part == parts_.end()) return false;
  note({.part = static_cast<std::size_t>(part - parts_.begin()), .number = sample - part->first});
  const int behind_others = std::popcount(history_);
  std::optional<Together> now = together_;
  if (!together_ && behind_others >= kTogetherLeast) now = told_by_opens();
  if (behind_others <= kApartMost) {
    now.reset();
    std::ranges::fill(first_, 0);
    std::ranges::fill(later_, 0);
  }
  return std::exchange(together_, now) != now;
}

void Companions::note(const Opened& opened) {
  const auto companion = std::ranges::find_if(recent_, [&](const Opened& other) {
    return other.number == opened.number && other.part != opened.part && other.part != SIZE_MAX;
  });
  history_ = history_ << 1 | (companion != recent_.end() ? 1U : 0U);
  if (companion != recent_.end()) {
    ++first_[companion->part];
    ++later_[opened.part];
  }
  recent_[recent_at_] = opened;
  recent_at_ = (recent_at_ + 1) % recent_.size();
}

std::optional<Companions::Together> Companions::told_by_opens() const {
  const auto leader = static_cast<std::size_t>(std::ranges::max_element(first_) - first_.begin());
  Together together{.leader = parts_[leader], .others = {}};
  const std::uint64_t most = *std::ranges::max_element(later_);
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (part != leader && later_[part] * 2 >= most) together.others.push_back(parts_[part]);
  }
  return together.others.empty() ? std::nullopt : std::optional(std::move(together));
}

std::unique_ptr<Order> order_together(std::shared_ptr<const Order> leader, Companions::Together together) {
  return std::make_unique<TogetherOrder>(std::move(leader), std::move(together));
}

}  // namespace headrace::cache
