// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/reading.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

namespace headrace::cache {
namespace {

// Positions opened one after the other, a stride apart.
struct Run {
  std::uint64_t first = 0;  // position
  std::uint64_t length = 0;
};

[[nodiscard]] std::vector<Run> runs_at(std::span<const std::uint64_t> by_arrival, std::uint64_t stride) {
  std::vector<Run> runs;
  std::unordered_map<std::uint64_t, std::size_t> run_before;  // by the position that continues it
  run_before.reserve(by_arrival.size());
  for (const std::uint64_t position : by_arrival) {
    auto run = run_before.extract(position);
    if (run.empty()) {
      runs.push_back({.first = position, .length = 1});
      run_before[position + stride] = runs.size() - 1;
      continue;
    }
    ++runs[run.mapped()].length;
    run.key() = position + stride;
    run_before.insert(std::move(run));
  }
  return runs;
}

// The ranks of the job: with that stride the opens fall into the fewest runs.
[[nodiscard]] std::uint64_t replicas_of(std::span<const std::uint64_t> by_arrival) {
  // Fewer opens may come from the first rank alone while the others are still starting.
  constexpr std::size_t kLeastOpens = 32;
  // While workers have opened few samples each, their first ones, a batch apart, look like runs as well.
  constexpr std::size_t kClearly = 3;  // halves
  // Neighbours are of different ranks, and half of them come in the wrong sequence. Longer runs are those of workers
  // that overtake one another by whole batches, of which many ranks would seem to have fewer.
  constexpr std::size_t kOpensPerRun = 6;
  if (by_arrival.size() < kLeastOpens) return 1;
  const std::size_t plainly = runs_at(by_arrival, 1).size();
  if (by_arrival.size() > kOpensPerRun * plainly) return 1;
  std::uint64_t best = 1;
  std::size_t fewest = 2 * plainly / kClearly;
  for (const std::uint64_t stride : usual_strides()) {
    if (stride * 2 > by_arrival.size()) break;
    const std::size_t runs = runs_at(by_arrival, stride).size();
    if (runs < fewest) {
      fewest = runs;
      best = stride;
    }
  }
  return best;
}

// Strays begin no run; nor can much be told from a batch that has just begun.
[[nodiscard]] std::vector<Run> without_strays(std::vector<Run> runs) {
  std::erase_if(runs, [](const Run& run) { return run.length < 2; });
  return runs;
}

// Which ranks read here: if not all, a contiguous part of them.
void find_ranks(const std::vector<Run>& runs, Reading& reading) {
  if (runs.empty()) return;
  std::vector<bool> occurs(reading.replicas);
  for (const Run& run : runs) occurs[run.first % reading.replicas] = true;
  const auto first = std::ranges::find(occurs, true);
  const auto end = std::find(first, occurs.end(), false);
  if (std::find(end, occurs.end(), true) != occurs.end()) return;
  reading.first_rank = static_cast<std::uint64_t>(first - occurs.begin());
  reading.ranks = static_cast<std::uint64_t>(end - first);
}

// The largest distance between neighbouring starts of which most starts are multiples apart. Some starts are missing:
// where the batch before had ended, its run goes on.
[[nodiscard]] std::optional<std::uint64_t> batch_of(const std::vector<Run>& runs, std::uint64_t replicas) {
  std::set<std::uint64_t> starts;
  for (const Run& run : runs) starts.insert(run.first / replicas);
  std::set<std::uint64_t, std::greater<>> distances;
  for (auto start = starts.begin(); start != starts.end() && std::next(start) != starts.end(); ++start) {
    distances.insert(*std::next(start) - *start);
  }
  for (const std::uint64_t batch : distances) {
    const auto in_step =
        std::ranges::count_if(starts, [&](std::uint64_t start) { return start % batch == *starts.begin() % batch; });
    if (static_cast<std::size_t>(in_step) * 5 >= starts.size() * 4) return batch;
  }
  return std::nullopt;
}

// A batch of one rank, as far as it was opened.
struct Batch {
  std::uint64_t opened = 0;
  std::size_t began = 0;  // number of its first open
  std::size_t ended = 0;  // of its last one
};

[[nodiscard]] std::vector<Batch> batches_of(std::span<const std::uint64_t> by_arrival, std::uint64_t rank,
                                            const Reading& reading) {
  std::map<std::uint64_t, Batch> batches;
  for (std::size_t i = 0; i < by_arrival.size(); ++i) {
    if (by_arrival[i] % reading.replicas != rank) continue;
    Batch& batch =
        batches.try_emplace(by_arrival[i] / reading.replicas / reading.batch, Batch{.began = i}).first->second;
    ++batch.opened;
    batch.ended = i;
  }
  std::vector<Batch> found;
  for (const auto& [number, batch] : batches) {
    if (batch.opened > 1) found.push_back(batch);  // not a stray
  }
  return found;
}

// The most batches of one rank that were begun and not ended at the same time.
[[nodiscard]] std::uint64_t workers_of(std::span<const std::uint64_t> by_arrival, const Reading& reading) {
  std::uint64_t most = 1;
  for (std::uint64_t rank = reading.first_rank; rank < reading.first_rank + reading.ranks; ++rank) {
    const std::vector<Batch> batches = batches_of(by_arrival, rank, reading);
    for (const Batch& latest : batches) {
      const auto unfinished = std::ranges::count_if(batches, [&](const Batch& batch) {
        const bool has_ended = batch.opened >= reading.batch && batch.ended < latest.began;
        return batch.began <= latest.began && !has_ended;
      });
      most = std::max(most, static_cast<std::uint64_t>(unfinished));
    }
  }
  return most;
}

// How far opens are from where they would be if they came in sequence, on both sides; 3 % of them may be strays, which
// move the others by one each.
[[nodiscard]] std::uint64_t disorder_of(std::span<const std::uint64_t> by_arrival) {
  std::vector<std::size_t> arrivals(by_arrival.size());
  std::iota(arrivals.begin(), arrivals.end(), std::size_t{0});
  std::ranges::sort(arrivals, {}, [&](std::size_t arrival) { return by_arrival[arrival]; });
  std::vector<std::size_t> distances;
  for (std::size_t i = 0; i < arrivals.size(); ++i)
    distances.push_back(std::max(i, arrivals[i]) - std::min(i, arrivals[i]));
  const auto most = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() * 97 / 100);
  std::nth_element(distances.begin(), most, distances.end());
  return distances.empty() ? 1 : 2 * *most + 1;
}

// Families that take batch and workers, while their ranks cannot be told from the opens.
[[nodiscard]] bool is_of_one_rank(std::string_view spec) {
  constexpr std::string_view kFamilies[] = {"torch-random", "numpy",      "python",  "ffcv",
                                            "dlio",         "detectron2", "mmengine"};
  return std::ranges::find(kFamilies, spec.substr(0, spec.find(':'))) != std::end(kFamilies);
}

// Every sample three times; fewer so far, because the last ones are still to come. A file that its loader opens twice
// gives 2 and no more.
constexpr double kRepeatsLeast = 2.25;
constexpr double kRepeatsMost = 3.5;

}  // namespace

Reading read_off(std::span<const std::uint64_t> by_arrival) {
  by_arrival = by_arrival.first(std::min(by_arrival.size(), kReadingOpens));
  Reading reading;
  reading.replicas = replicas_of(by_arrival);
  const std::vector<Run> runs = without_strays(runs_at(by_arrival, reading.replicas));
  find_ranks(runs, reading);
  if (const auto batch = batch_of(runs, reading.replicas)) {
    reading.batch = *batch;
    reading.workers = workers_of(by_arrival, reading);
  } else if (runs.size() == 1) {
    reading.batch = 1;  // one by one, whatever the batches are: nothing lags
  } else {
    reading.batch = std::bit_ceil(disorder_of(by_arrival) / reading.ranks + 1);
  }
  return reading;
}

std::uint64_t first_position(const Fit& fit) {
  const std::uint64_t reach = 4 * fit.stride;
  for (std::size_t i = 0; i + 1 < fit.positions.size(); ++i) {
    if (fit.positions[i + 1] - fit.positions[i] <= reach) return fit.positions[i];
  }
  return fit.positions.front();
}

std::string spec_as_read(const std::string& spec, const Reading& reading, double opens_per_sample) {
  constexpr std::string_view kFresh = "torch-distributed:";
  constexpr std::uint64_t kMostBatch = 1 << 24;
  const std::uint64_t batch = std::min(reading.batch, kMostBatch);
  const bool sequential = spec == "sequential";
  if (is_of_one_rank(spec)) {  // ranks that share it advance side by side
    return fmt::format("{}{}batch={},workers={}", spec, spec.find(':') == std::string::npos ? ':' : ',',
                       std::min(batch * reading.replicas, kMostBatch), reading.workers);
  }
  if (!sequential && !spec.starts_with(kFresh)) return spec;
  if (!sequential && opens_per_sample > kRepeatsLeast && opens_per_sample < kRepeatsMost) {
    return fmt::format("ra-sampler:{},batch={},workers=1", spec.substr(kFresh.size()), std::min(3 * batch, kMostBatch));
  }
  std::string ranks;
  if (reading.replicas > 1) ranks = fmt::format("replicas={},", reading.replicas);
  if (reading.ranks < reading.replicas) {
    ranks += fmt::format("rank={}-{},", reading.first_rank, reading.first_rank + reading.ranks - 1);
  }
  return fmt::format("{}{}{}batch={},workers={}", spec, sequential ? ':' : ',', ranks, batch, reading.workers);
}

}  // namespace headrace::cache
