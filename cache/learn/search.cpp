// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/search.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "headrace/cache/order/torch_randperm.h"

namespace headrace::cache {
namespace {

// How much of a candidate is compared with the opens: beyond this no loader's window reaches soon after the start.
constexpr std::uint64_t kFitElements = 1 << 17;

constexpr std::uint64_t kSeedsUsedMost = 12;       // 0, 42, 1, 1234...: some 15 s of one core with 80 M outputs each
constexpr std::uint64_t kOutputsAtOnce = 1 << 16;  // about a millisecond: how long cancelling takes

constexpr double kReplayedBits = 12;  // with what a prediction needs

[[nodiscard]] bool is_random_permutation(const Order& order) {
  return !order.spec().starts_with("sequential") && !order.spec().starts_with("recorded:");
}

[[nodiscard]] std::optional<Fit> fit_at_start(const Order& order, std::uint64_t epoch, const SearchTask& task) {
  // Not one of the first 64 opened (whatever the ranks of this node, their first samples are among them): most end
  // here.
  constexpr std::uint64_t kFirst = 64;
  const auto first = order.prefix(epoch, kFirst);
  if (!first || std::ranges::none_of(*first, [&](SampleIndex s) { return task.opens->contains(s); }))
    return std::nullopt;
  const auto start = order.prefix(epoch, kStartElements);
  if (!start || start_bits(*task.opens, *start, task.n) < kStartBits) return std::nullopt;
  return convincing_fit(task, order, order.prefix(epoch, kFitElements));
}

[[nodiscard]] std::optional<Fit> fit_anywhere(const Order& order, std::uint64_t epoch, const SearchTask& task) {
  return convincing_fit(task, order, order.epoch(epoch));
}

template <typename FitOf>
[[nodiscard]] std::optional<Match> try_groups(const std::vector<CandidateGroup>& groups, const SearchTask& task,
                                              const FitOf& fit_of_candidate) {
  for (const CandidateGroup& group : groups) {
    const auto order = make_candidate(group.spec, group.base, task.n);
    if (!order) continue;  // the family does not exist for this many samples
    SearchTask over = task;
    if (group.base) over.n = group.base->size();
    // A replay's places are those of opens, so that neighbours are of different workers, half of them.
    if (group.base && task.is_predicted) over.least_direction_bits = kReplayedBits;
    for (std::uint64_t i = 0; i < group.epochs; ++i) {
      if (task.cancelled->load(std::memory_order_relaxed)) return std::nullopt;
      const std::uint64_t epoch = group.first_epoch + i;
      if (auto fit = fit_of_candidate(**order, epoch, over))
        return Match{group.spec, epoch, std::move(*fit), {}, group.base};
    }
  }
  return std::nullopt;
}

[[nodiscard]] std::optional<Match> try_link(const StreamLink& link, std::uint64_t epochs_since,
                                            const SearchTask& task) {
  constexpr std::uint64_t kMost = 4096;
  const auto seeds = seeds_after(link, std::min(kMostStride * epochs_since, kMost));
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    auto match = try_at_start({{fresh_seed_spec(seeds[i])}}, task);
    if (!match) continue;
    match->link = link;
    const std::uint64_t outputs = i + 1;
    if (outputs % epochs_since != 0) return match;  // not evenly spaced: right for this epoch, no rule for the next
    match->spec = linked_spec({link.seed, link.output + outputs}, outputs / epochs_since);
    return match;
  }
  return std::nullopt;
}

// The work of the search must never take time from a training process.
void lower_priority() {
  const sched_param parameter{};
  pthread_setschedparam(pthread_self(), SCHED_IDLE, &parameter);  // refused: the search then competes with the loader
  pthread_setname_np(pthread_self(), "hr-seeds");
}

// In the sequence of their likelihood; each is one pass over all seeds.
[[nodiscard]] std::vector<SeedScanPlan> plans_for(std::uint64_t n) {
  std::vector<SeedScanPlan> plans = {
      {.n = n},                        // a fresh generator; this node has rank 0
      {.n = n, .skipped_outputs = 2},  // one generator for all epochs, base_seed drawn first
      {.n = n, .first_position = 3},   // as the first; one of the first opens was not seen
      {.n = n, .first_position = 8},   // the second node of eight ranks each, ...
      {.n = n, .first_position = 16},
      {.n = n, .first_position = 24},
  };
  std::erase_if(plans, [](const SeedScanPlan& plan) { return !SeedScan::possible(plan); });
  return plans;
}

}  // namespace

std::uint64_t thread_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

std::optional<Fit> convincing_fit(const SearchTask& task, const Order& order,
                                  const Result<std::vector<SampleIndex>>& samples) {
  if (!samples) return std::nullopt;
  Fit fit = fit_of(*task.opens, *samples, task.n);
  if (fit.bits < task.least_bits) return std::nullopt;
  if (!is_random_permutation(order) && fit.direction_bits < task.least_direction_bits) return std::nullopt;
  // Clips and classes that are read from their first file to their last are neighbours in the listing, too.
  const bool is_listing = order.spec().starts_with("sequential");
  if (is_listing && !task.is_predicted && !is_one_stretch(fit, task.n)) return std::nullopt;
  return fit;
}

std::optional<Match> try_at_start(const std::vector<CandidateGroup>& groups, const SearchTask& task) {
  return try_groups(groups, task, fit_at_start);
}

std::optional<Match> try_anywhere(const std::vector<CandidateGroup>& groups, const SearchTask& task) {
  return try_groups(groups, task, fit_anywhere);
}

// Blocks of neighbours that are read in the sequence of the listing, clips or classes, are the same in any epoch: what
// they share proves nothing. So of those that were opened together with the one listed before them, none counts.
std::optional<Match> try_replay(const Indices& read_before, const SearchTask& task) {
  OpenSet telling;
  for (const SampleIndex sample : task.opens->samples()) {
    if (sample == 0 || !task.opens->contains(sample - 1)) telling.add(sample);
  }
  const std::uint64_t n = read_before->size();
  const Fit fit = fit_of(telling, *read_before, n);
  constexpr double kReplayDirectionBits = 24;  // one candidate, tried some ten times an epoch
  if (fit.bits < kPredictionBits || fit.direction_bits < kReplayDirectionBits) return std::nullopt;
  if (!is_one_stretch(fit, n)) return std::nullopt;
  return Match{"sequential", 0, fit_of(*task.opens, *read_before, n), {}, read_before};
}

std::optional<Match> try_links(const std::vector<StreamLink>& links, std::uint64_t epochs_since,
                               const SearchTask& task) {
  if (epochs_since == 0) return std::nullopt;
  for (const StreamLink& link : links) {
    if (auto match = try_link(link, epochs_since, task)) return match;
  }
  return std::nullopt;
}

void SeedSearch::go_through_outputs(const SeedScan& scan, const SeedScanPlan& plan) {
  lower_priority();
  std::vector<std::uint32_t> outputs(kOutputsAtOnce);
  std::vector<std::uint32_t> survivors;
  for (std::uint64_t seed = next_++; seed < kSeedsUsedMost; seed = next_++) {
    Mt19937 stream(static_cast<std::uint32_t>(usual_seeds()[seed]));
    for (std::uint64_t at = 0; at < options_.early_outputs; at += kOutputsAtOnce) {
      if (found_ || task_.cancelled->load(std::memory_order_relaxed)) break;
      for (std::uint32_t& output : outputs) output = stream.next32();
      survivors.clear();
      scan.run(outputs, survivors);
      check(survivors, plan);
      tested_ += kOutputsAtOnce;
    }
  }
  cpu_ns_ += thread_cpu_ns();
}

void SeedSearch::try_early_outputs() {
  const SeedScanPlan plan{.n = task_.n};
  if (options_.early_outputs == 0 || !SeedScan::possible(plan)) return;
  const SeedScan scan(task_.opens->samples(), plan);
  next_ = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < options_.threads; ++t) threads.emplace_back([&] { go_through_outputs(scan, plan); });
  for (std::thread& thread : threads) thread.join();
}

std::optional<Match> SeedSearch::run() {
  try_early_outputs();
  for (const SeedScanPlan& plan : plans_for(task_.n)) {
    if (found_ || task_.cancelled->load()) break;
    const SeedScan scan(task_.opens->samples(), plan);
    next_ = 0;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < options_.threads; ++t) threads.emplace_back([&] { go_through(scan, plan); });
    for (std::thread& thread : threads) thread.join();
  }
  io::MutexLock lock(mutex_);
  return match_;
}

std::uint64_t SeedSearch::seeds_to_test() const {
  const std::uint64_t pieces = (options_.early_outputs + kOutputsAtOnce - 1) / kOutputsAtOnce;
  const std::uint64_t early = SeedScan::possible({.n = task_.n}) ? kSeedsUsedMost * pieces * kOutputsAtOnce : 0;
  return early + plans_for(task_.n).size() * options_.seeds;
}

double SeedSearch::cpu_seconds() const {
  return static_cast<double>(cpu_ns_.load()) / 1e9;
}

void SeedSearch::go_through(const SeedScan& scan, const SeedScanPlan& plan) {
  constexpr std::uint64_t kChunk = 1 << 18;  // about 5 ms: how long cancelling takes
  lower_priority();
  std::vector<std::uint32_t> survivors;
  while (!found_ && !task_.cancelled->load(std::memory_order_relaxed)) {
    const std::uint64_t first = next_.fetch_add(kChunk);
    if (first >= options_.seeds) break;
    const std::uint64_t count = std::min(kChunk, options_.seeds - first);
    survivors.clear();
    scan.run(static_cast<std::uint32_t>(first), count, survivors);
    check(survivors, plan);
    tested_ += count;
  }
  cpu_ns_ += thread_cpu_ns();
}

void SeedSearch::check(const std::vector<std::uint32_t>& survivors, const SeedScanPlan& plan) {
  for (const std::uint32_t seed : survivors) {
    if (found_ || task_.cancelled->load(std::memory_order_relaxed)) return;
    Mt19937 generator(seed);
    generator.discard(plan.skipped_outputs);
    const auto start = torch_randperm(generator, plan.n, kStartElements);
    if (start_bits(*task_.opens, start, plan.n) < kStartBits) continue;
    const std::string spec = plan.skipped_outputs == 0 ? fresh_seed_spec(seed)
                                                       : fmt::format("torch-random:generator=explicit,seed={}", seed);
    std::optional<Match> match = try_at_start({{spec}}, task_);
    if (!match) continue;
    match->found_by = "seed search";
    io::MutexLock lock(mutex_);
    match_ = std::move(match);
    found_ = true;
  }
}

}  // namespace headrace::cache
