// SPDX-License-Identifier: Apache-2.0
// Tries candidate orders against the opens of one epoch.
//
//   if (auto match = try_at_start(small_candidates(), task)) ...
//   SeedSearch search(task, {.threads = 2});
//   if (auto match = search.run()) ...
//
// Thread-safety: functions are pure; SeedSearch's getters may be called while run() is under way.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headrace/cache/learn/candidates.h"
#include "headrace/cache/learn/evidence.h"
#include "headrace/cache/learn/link.h"
#include "headrace/cache/learn/seed_scan.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

struct SearchTask {
  std::uint64_t n = 0;
  const OpenSet* opens = nullptr;
  const std::atomic<bool>* cancelled = nullptr;
  double least_bits = kSeedSearchBits;
  bool is_predicted = false;                     // by the order before: what it needs then is little
  double least_direction_bits = kDirectionBits;  // of what is no random permutation
};

struct Match {
  std::string spec;  // over the n samples of the part, all ranks
  std::uint64_t epoch = 0;
  Fit fit = {};
  std::string found_by = {};
  Indices base = {};                    // what the spec is over; null: all samples
  std::optional<StreamLink> link = {};  // that told the seed
};

// How well the opens fit `samples`, an epoch of the order or the beginning of one; nullopt: not as well as is asked.
[[nodiscard]] std::optional<Fit> convincing_fit(const SearchTask& task, const Order& order,
                                                const Result<std::vector<SampleIndex>>& samples);

// For epochs that were watched from their start: microseconds per candidate of a family with a short form.
[[nodiscard]] std::optional<Match> try_at_start(const std::vector<CandidateGroup>& groups, const SearchTask& task);
// For epochs entered anywhere: the whole order of each candidate, 10 ns and more per sample.
[[nodiscard]] std::optional<Match> try_anywhere(const std::vector<CandidateGroup>& groups, const SearchTask& task);

// The sequence in which the epoch before was read, once more.
[[nodiscard]] std::optional<Match> try_replay(const Indices& read_before, const SearchTask& task);

// The seeds that the default generator gives so many epochs after the linked one, link by link. Found: an order that
// goes on along the stream.
[[nodiscard]] std::optional<Match> try_links(const std::vector<StreamLink>& links, std::uint64_t epochs_since,
                                             const SearchTask& task);

struct SeedSearchOptions {
  unsigned threads = 1;
  std::uint64_t seeds = std::uint64_t{1} << 32;
  // First of all so many outputs of torch's default generator, from each of the seeds that scripts use most: the seed
  // of an epoch is one of them, the one after all that the model's initialisation drew.
  std::uint64_t early_outputs = 0;
};

// All of torch's seeds, on threads of the lowest priority.
class SeedSearch {
 public:
  SeedSearch(SearchTask task, SeedSearchOptions options) : task_(task), options_(options) {}

  // Blocks until the seed is found, every plan has been gone through, or the task is cancelled.
  [[nodiscard]] std::optional<Match> run();

  [[nodiscard]] std::uint64_t seeds_tested() const { return tested_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t seeds_to_test() const;  // where nothing is found
  [[nodiscard]] double cpu_seconds() const;           // after run()

 private:
  void try_early_outputs();
  void go_through_outputs(const SeedScan& scan, const SeedScanPlan& plan);
  void go_through(const SeedScan& scan, const SeedScanPlan& plan);
  void check(const std::vector<std::uint32_t>& survivors, const SeedScanPlan& plan);

  const SearchTask task_;
  const SeedSearchOptions options_;
  std::atomic<std::uint64_t> next_ = 0;
  std::atomic<std::uint64_t> tested_ = 0;
  std::atomic<std::uint64_t> cpu_ns_ = 0;
  std::atomic<bool> found_ = false;
  mutable io::Mutex mutex_;
  std::optional<Match> match_ HEADRACE_GUARDED_BY(mutex_);
};

// CPU time that the calling thread has used.
[[nodiscard]] std::uint64_t thread_cpu_ns();

}  // namespace headrace::cache
