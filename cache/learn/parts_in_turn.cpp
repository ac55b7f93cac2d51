// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/parts_in_turn.h"

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "headrace/cache/catalog.h"

namespace headrace::cache {
namespace {

[[nodiscard]] std::optional<OrderedSet> set_of(const Track& track) {
  const std::optional<Track::Lock>& lock = track.lock();
  if (!lock || lock->known_epochs != UINT64_MAX) return std::nullopt;
  OrderedSet set{.name = track.range().name, .samples = {}, .order = nullptr};
  if (lock->base) {
    set.samples = *lock->base;
    for (SampleIndex& sample : set.samples) sample += static_cast<SampleIndex>(track.range().first);
  } else {
    set.samples.resize(track.range().count);
    std::iota(set.samples.begin(), set.samples.end(), static_cast<SampleIndex>(track.range().first));
  }
  auto order = make_order(lock->order_spec(), {.sample_count = set.samples.size(), .find_sample = nullptr});
  if (!order) return std::nullopt;
  set.order = std::move(*order);
  return set;
}

}  // namespace

std::vector<SampleRange> top_level_parts(const Catalog& catalog) {
  std::vector<SampleRange> parts;
  EntryId last = kNoEntry;
  for (SampleIndex sample = 0; sample < catalog.sample_count(); ++sample) {
    EntryId folder = catalog.sample_entry(sample);
    if (catalog.parent(folder) == kRootEntry) continue;  // in none: one data set may have millions of these
    while (catalog.parent(folder) != kRootEntry) folder = catalog.parent(folder);
    if (std::exchange(last, folder) != folder)
      parts.push_back({.first = sample, .count = 0, .name = catalog.path(folder)});
    ++parts.back().count;
  }
  return parts;
}

std::shared_ptr<const PassOrder> parts_in_turn(std::span<const Track> tracks, std::size_t active,
                                               std::uint64_t sample_count) {
  if (active == 0) return nullptr;
  auto sets = std::make_shared<std::vector<OrderedSet>>();
  PassOptions options{.sample_count = sample_count};
  for (std::size_t i = 0; i + 1 < tracks.size(); ++i) {
    const std::size_t part = 1 + (active - 1 + i) % (tracks.size() - 1);
    std::optional<OrderedSet> set = set_of(tracks[part]);
    if (!set && part == active) return nullptr;
    if (!set) continue;
    sets->push_back(std::move(*set));
    const bool is_done = part != active && tracks[part].has_read_all();
    options.next_epochs.push_back(tracks[part].lock()->epoch + (is_done ? 1 : 0));
  }
  return sets->size() < 2 ? nullptr : std::make_shared<const PassOrder>(std::move(sets), options);
}

}  // namespace headrace::cache
