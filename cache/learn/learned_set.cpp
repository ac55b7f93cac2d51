// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/learned_set.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace headrace::cache {
namespace {

// One set in a million is believed by chance, and as much unbelief takes it back.
constexpr double kEnoughBits = 20;
// An open outside of the set is 16 times rarer than by chance if nothing else is read: a stray.
constexpr double kBitsOutside = -4;
// By chance as many opens lie within the set as it has of all samples, or half: the second of two jobs that read the
// same, one behind the other.
constexpr double kLeastChance = 0.5;

}  // namespace

bool LearnedSet::is_same(const std::vector<SampleIndex>& read) const {
  return samples_ && read.size() == samples_->size() &&
         std::ranges::all_of(read, [this](SampleIndex sample) { return has_[sample]; });
}

void LearnedSet::learn(const std::vector<SampleIndex>& read) {
  const bool is_proven = is_same(read);
  samples_ = std::make_shared<const std::vector<SampleIndex>>(read);
  has_.assign(has_.size(), false);
  for (const SampleIndex sample : read) has_[sample] = true;
  const double share = static_cast<double>(read.size()) / static_cast<double>(has_.size());
  const double chance = std::max(share, kLeastChance);
  bits_inside_ = std::log2((1 - (1 - chance) * std::exp2(kBitsOutside)) / chance);
  bits_ = 0;
  is_believed_ = is_believed_ || is_proven;
  is_confirmed_ = is_proven;
  was_taken_ = false;
}

void LearnedSet::on_open(SampleIndex sample) {
  if (!samples_) return;
  bits_ = std::clamp(bits_ + (has_[sample] ? bits_inside_ : kBitsOutside), -kEnoughBits, kEnoughBits);
  if (bits_ >= kEnoughBits) is_believed_ = is_confirmed_ = true;
  if (bits_ <= -kEnoughBits) is_believed_ = false;
}

std::vector<SampleIndex> LearnedSet::take_left_out() {
  std::vector<SampleIndex> left_out;
  if (!is_confirmed_ || was_taken_) return left_out;
  was_taken_ = true;
  for (std::size_t sample = 0; sample < has_.size(); ++sample) {
    if (!has_[sample]) left_out.push_back(static_cast<SampleIndex>(sample));
  }
  return left_out;
}

}  // namespace headrace::cache
