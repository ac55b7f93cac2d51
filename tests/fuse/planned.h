// SPDX-License-Identifier: Apache-2.0
// A plan of what is pushed, without a mount: samples are fetched and pushed at once.
//
//   Planned planned;
//   PushPlan plan = planned.plan({.budget_bytes = 8 * kSampleBytes, .order = sequential()});
//   push_all(plan);
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "headrace/fuse/push/push_plan.h"

#include "sized_catalog.h"

namespace headrace::fuse::test {

using cache::SampleIndex;

inline constexpr unsigned kSampleCount = 32;
inline constexpr std::size_t kSampleBytes = 4096;
// A plan over samples, of equal size if nothing else is said, and the takeover record that it keeps.
class Planned {
 public:
  explicit Planned(const std::vector<std::size_t>& sizes = std::vector<std::size_t>(kSampleCount, kSampleBytes))
      : pages(sizes.size()), catalog_(sizes) {}

  [[nodiscard]] PushPlan plan(PushPlanOptions options) {
    return PushPlan(*catalog_, {.head = &head, .pages = pages}, std::move(options));
  }

  TakeoverHead head;
  std::vector<SamplePages> pages;

 private:
  const SizedCatalog catalog_;
};

inline OrderPosition sequential(std::size_t sample_count = kSampleCount) {
  return {.order = std::move(*cache::make_order("sequential", {.sample_count = sample_count}))};
}

inline MountStats stats_of(const PushPlan& plan) {
  MountStats stats;
  plan.add_stats(stats);
  return stats;
}

enum class FetchedFrom : std::uint8_t { kTier, kSource };

// Fetches and pushes all that the plan names; returns it.
inline std::vector<SampleIndex> push_all(PushPlan& plan, FetchedFrom from = FetchedFrom::kTier) {
  std::vector<SampleIndex> pushed;
  while (const auto sample = plan.next_fetch()) {
    while (plan.next_victim(plan.pages().bytes_of(*sample))) continue;
    const bool placed = plan.place(*sample);
    if (from == FetchedFrom::kSource) plan.note_from_source();
    plan.on_fetched(*sample, plan.generation(), placed ? Landing::kPushed : Landing::kNoRoom);
    if (placed) pushed.push_back(*sample);
  }
  return pushed;
}

inline void open(PushPlan& plan, SampleIndex sample) {
  plan.on_opens({&sample, 1});
}

}  // namespace headrace::fuse::test
