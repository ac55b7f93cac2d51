// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/request_counts.h"

#include <algorithm>
#include <optional>

namespace headrace::cache {

void RequestCounts::sent(bool is_list) {
  add(sent_);
  if (is_list) add(lists_);
}

void RequestCounts::took(std::chrono::nanoseconds latency) {
  const double seconds = std::chrono::duration<double>(latency).count();
  const auto* const bound = std::lower_bound(kSecondsMax.begin(), kSecondsMax.end(), seconds);
  add(latencies_[static_cast<std::size_t>(bound - kSecondsMax.begin())]);
  add(latency_ns_, static_cast<std::uint64_t>(latency.count()));
}

void RequestCounts::fill(ObjectStoreStats& stats) const {
  const auto answers = [this](Answer answer) { return answers_[static_cast<std::size_t>(answer)].load(); };
  stats.requests = sent_.load();
  stats.lists = lists_.load();
  stats.bytes = bytes_.load();
  stats.good = answers(Answer::kGood);
  stats.refused = answers(Answer::kRefused);
  stats.throttles = answers(Answer::kBusy);
  stats.broken = answers(Answer::kBroken);
  stats.retries = retries_.load();
  stats.hedges = hedges_.load();
  stats.hedges_won = hedges_won_.load();
  stats.errors = errors_.load();
  stats.stale = stale_.load();
  stats.latency_seconds = 1e-9 * static_cast<double>(latency_ns_.load());
  stats.latencies.clear();
  for (std::size_t i = 0; i < latencies_.size(); ++i) {
    const std::optional<double> bound = i < kSecondsMax.size() ? std::optional(kSecondsMax[i]) : std::nullopt;
    stats.latencies.push_back({bound, latencies_[i].load()});
  }
}

}  // namespace headrace::cache
