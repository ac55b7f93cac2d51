// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/reading.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace headrace::cache {
namespace {

struct Ranks {
  std::uint64_t replicas = 1;
  std::uint64_t first = 0;
  std::uint64_t count = 1;
};

// Fewer opens may come from the first rank alone while the others are still starting.
constexpr std::size_t kOpensForRanks = 32;

// Residues modulo the stride that occur more often than strays would.
[[nodiscard]] std::vector<bool> residues_of(const Fit& fit) {
  std::vector<std::size_t> counts(fit.stride);
  for (const std::uint64_t position : fit.positions) ++counts[position % fit.stride];
  std::vector<bool> occurs(fit.stride);
  for (std::uint64_t i = 0; i < fit.stride; ++i) occurs[i] = counts[i] * 50 > fit.positions.size();
  return occurs;
}

// The ranks that read here, if they are a strict and contiguous part of all of them.
[[nodiscard]] std::optional<Ranks> ranks_of(const Fit& fit) {
  if (fit.stride < 2 || fit.positions.size() < kOpensForRanks) return std::nullopt;
  const std::vector<bool> occurs = residues_of(fit);
  const auto first = std::ranges::find(occurs, true);
  const auto end = std::find(first, occurs.end(), false);
  if (first == occurs.end() || std::find(end, occurs.end(), true) != occurs.end()) return std::nullopt;
  const auto count = static_cast<std::uint64_t>(end - first);
  if (count == fit.stride) return std::nullopt;
  return Ranks{fit.stride, static_cast<std::uint64_t>(first - occurs.begin()), count};
}

struct Streams {
  std::uint64_t batch = 1;  // positions from one stream's start to the next
  std::uint64_t workers = 1;
};

// Positions where a stream began: nothing was opened shortly before them.
[[nodiscard]] std::vector<std::uint64_t> stream_starts(const Fit& fit) {
  const std::uint64_t reach = 4 * fit.stride;
  std::vector<std::uint64_t> starts;
  for (std::size_t i = 0; i < fit.positions.size(); ++i) {
    const bool continues = i > 0 && fit.positions[i] - fit.positions[i - 1] <= reach;
    const bool is_continued = i + 1 < fit.positions.size() && fit.positions[i + 1] - fit.positions[i] <= reach;
    if (!continues && is_continued) starts.push_back(fit.positions[i]);
  }
  return starts;
}

// Equally spaced starts are the workers' first batches. Otherwise a window that covers what was seen.
[[nodiscard]] Streams streams_of(const Fit& fit) {
  const std::vector<std::uint64_t> starts = stream_starts(fit);
  const std::uint64_t span = fit.positions.back() - first_position(fit) + 1;
  const Streams covering{.batch = std::bit_ceil(span), .workers = 1};
  if (starts.size() < 2) return covering;
  const std::uint64_t batch = starts[1] - starts[0];
  for (std::size_t i = 1; i < starts.size(); ++i) {
    if (starts[i] - starts[i - 1] != batch) return covering;
  }
  // A rank may begin a batch before the one whose position comes first; batches of all ranks are multiples of 8.
  return {.batch = batch < 16 ? batch : batch - batch % 8, .workers = starts.size()};
}

// Every sample three times; fewer so far, because the last ones are still to come. A file that its loader opens twice
// gives 2 and no more.
constexpr double kRepeatsLeast = 2.25;
constexpr double kRepeatsMost = 3.5;

}  // namespace

double positions_per_open(const Fit& fit) {
  if (fit.positions.size() < kOpensForRanks) return 1.0;
  const auto here = std::ranges::count(residues_of(fit), true);
  return here == 0 ? 1.0 : static_cast<double>(fit.stride) / static_cast<double>(here);
}

std::uint64_t first_position(const Fit& fit) {
  const std::uint64_t reach = 4 * fit.stride;
  for (std::size_t i = 0; i + 1 < fit.positions.size(); ++i) {
    if (fit.positions[i + 1] - fit.positions[i] <= reach) return fit.positions[i];
  }
  return fit.positions.front();
}

std::string spec_as_read(const Match& match, double opens_per_sample) {
  constexpr std::string_view kFresh = "torch-distributed:";
  constexpr std::uint64_t kMostBatch = 1 << 24;
  const bool sequential = match.spec == "sequential";
  if (!sequential && !match.spec.starts_with(kFresh)) return match.spec;
  std::string spec = match.spec;
  const bool repeated = !sequential && opens_per_sample > kRepeatsLeast && opens_per_sample < kRepeatsMost;
  if (repeated) spec.replace(0, kFresh.size(), "ra-sampler:");
  spec += sequential ? ':' : ',';
  const std::optional<Ranks> ranks = repeated ? std::nullopt : ranks_of(match.fit);
  Streams streams = streams_of(match.fit);
  if (ranks) {
    spec += fmt::format("replicas={},rank={}-{},", ranks->replicas, ranks->first, ranks->first + ranks->count - 1);
    streams.batch = std::max<std::uint64_t>(streams.batch / ranks->replicas, 1);  // of one rank
  }
  return spec + fmt::format("batch={},workers={}", std::min(streams.batch, kMostBatch), streams.workers);
}

}  // namespace headrace::cache
