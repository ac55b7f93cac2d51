// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/evidence.h"

#include <algorithm>
#include <cmath>

namespace headrace::cache {
namespace {

constexpr std::size_t kSlots = 4 * OpenSet::kMost;

[[nodiscard]] std::vector<std::uint64_t> make_strides() {
  std::vector<std::uint64_t> strides;
  for (std::uint64_t s = 1; s <= 16; ++s) strides.push_back(s);
  for (std::uint64_t s = 24; s <= 128; s += 8) strides.push_back(s);
  for (std::uint64_t s = 256; s <= 1024; s *= 2) strides.push_back(s);
  return strides;
}

// -log2 P(X >= count) for X ~ Poisson(expected), by Chernoff's bound (never more than the truth).
[[nodiscard]] double tail_bits(double count, double expected) {
  if (count <= expected || expected <= 0) return 0;
  return count * std::log2(count / expected) - (count - expected) * 1.4426950408889634;
}

struct Opened {
  std::uint64_t position = 0;
  std::size_t arrival = 0;
};

struct Pairs {
  std::size_t all = 0;      // positions that have another one exactly a stride before them
  std::size_t forward = 0;  // of them, opened after that one
};

[[nodiscard]] Pairs pairs_at(std::span<const Opened> opened, std::uint64_t stride) {
  Pairs pairs;
  std::size_t before = 0;
  for (const Opened& open : opened) {
    while (opened[before].position + stride < open.position) ++before;
    if (opened[before].position + stride != open.position) continue;
    ++pairs.all;
    pairs.forward += opened[before].arrival < open.arrival ? 1 : 0;
  }
  return pairs;
}

// -log2 P(X >= forward) for X ~ Binomial(all, 1/2), by Chernoff's bound.
[[nodiscard]] double direction_bits(const Pairs& pairs) {
  if (2 * pairs.forward <= pairs.all) return 0;
  const auto all = static_cast<double>(pairs.all);
  const double forward = static_cast<double>(pairs.forward) / all;
  const double entropy =
      pairs.forward == pairs.all ? 0 : -forward * std::log2(forward) - (1 - forward) * std::log2(1 - forward);
  return all * (1 - entropy);
}

// `opened` ascends by position.
[[nodiscard]] Fit weigh(std::span<const Opened> opened, std::uint64_t length, std::size_t opens, std::uint64_t n) {
  Fit fit;
  const double chance = static_cast<double>(opens) / static_cast<double>(n);
  const double expected = static_cast<double>(length) * chance * chance;
  for (const std::uint64_t stride : usual_strides()) {
    const Pairs pairs = pairs_at(opened, stride);
    const double direction = direction_bits(pairs);
    fit.direction_bits = std::max(fit.direction_bits, direction);
    // In a wrong order either neighbour is as likely to come first, however many there are: the two add up.
    const double bits = tail_bits(static_cast<double>(pairs.all), expected) + direction;
    if (bits <= fit.bits) continue;
    fit.bits = bits;
    fit.stride = stride;
  }
  for (const Opened& open : opened) fit.positions.push_back(open.position);
  return fit;
}

}  // namespace

const std::vector<std::uint64_t>& usual_strides() {
  static const std::vector<std::uint64_t> strides = make_strides();
  return strides;
}

OpenSet::OpenSet() : slots_(kSlots) {}

std::size_t OpenSet::slot_of(SampleIndex sample) const {
  std::size_t slot = sample * 0x9e3779b1U >> 18;  // 32 - 18 = 14 bits: kSlots
  static_assert(kSlots == 1 << 14);
  while (slots_[slot] != 0 && samples_[slots_[slot] - 1] != sample) slot = (slot + 1) % kSlots;
  return slot;
}

bool OpenSet::add(SampleIndex sample) {
  const std::size_t slot = slot_of(sample);
  if (slots_[slot] != 0 || full()) return false;
  samples_.push_back(sample);
  slots_[slot] = static_cast<std::uint16_t>(samples_.size());
  return true;
}

void OpenSet::clear() {
  samples_.clear();
  std::ranges::fill(slots_, std::uint16_t{0});
}

double start_bits(const OpenSet& opens, std::span<const SampleIndex> order, std::uint64_t n) {
  const double chance = static_cast<double>(opens.size()) / static_cast<double>(n);
  double best = 0;
  std::size_t hits = 0;
  std::size_t scale = 4;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (opens.contains(order[i])) ++hits;
    if (i + 1 != scale) continue;
    best = std::max(best, tail_bits(static_cast<double>(hits), static_cast<double>(scale) * chance));
    scale *= 2;
  }
  return best;
}

namespace {

// Of ascending positions from `begin` to `end`.
[[nodiscard]] double runs_in(const Fit& fit, std::size_t begin, std::size_t end) {
  double runs = 1;
  for (std::size_t i = begin + 1; i < end; ++i) {
    if (fit.positions[i] - fit.positions[i - 1] > fit.stride) ++runs;
  }
  return runs;
}

// -log2 of how rarely so many of all blocks, each of them anywhere, lie in a stretch that has this share of all places,
// by Chernoff's bound; and of the stretches that there are to choose from.
[[nodiscard]] double stretch_bits(double inside, double all, double share_of_places) {
  const double share = inside / all;
  if (share <= share_of_places) return 0;
  double bits = share * std::log2(share / share_of_places);
  if (share < 1) bits += (1 - share) * std::log2((1 - share) / (1 - share_of_places));
  return (all - 1) * bits - std::log2(all);
}

}  // namespace

// The tightest stretch that has nine of ten: the rest may be strays.
bool is_one_stretch(const Fit& fit, std::uint64_t n) {
  const std::vector<std::uint64_t>& positions = fit.positions;
  if (positions.empty()) return false;
  const std::size_t kept = positions.size() - positions.size() / 10;
  const auto span_from = [&](std::size_t first) { return positions[first + kept - 1] - positions[first] + 1; };
  std::size_t begin = 0;
  for (std::size_t first = 1; first + kept <= positions.size(); ++first) {
    if (span_from(first) < span_from(begin)) begin = first;
  }
  const std::uint64_t span = span_from(begin);
  const double runs = runs_in(fit, begin, begin + kept);
  constexpr std::size_t kFilledLeast = 40;  // five clips of eight do not lie side by side by chance
  const bool is_filled = kept >= kFilledLeast && span <= n / 4 * 3 && span <= 2 * kept;
  constexpr double kBits = 20;
  const double share_of_places = static_cast<double>(span) / static_cast<double>(n);
  return runs == 1 || is_filled || stretch_bits(runs, runs_in(fit, 0, positions.size()), share_of_places) >= kBits;
}

Fit fit_of(const OpenSet& opens, std::span<const SampleIndex> order, std::uint64_t n) {
  std::vector<Opened> opened;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (opens.contains(order[i])) opened.push_back({i, opens.arrival(order[i])});
  }
  return weigh(opened, order.size(), opens.size(), n);
}

}  // namespace headrace::cache
