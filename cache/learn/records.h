// SPDX-License-Identifier: Apache-2.0
// What was found before, by this run or earlier ones: the specs, and the epochs that no spec explained. A spec that is
// found when its epoch has ended already serves the next epoch.
//
//   Records records(root, range);
//   try_at_start(records.candidates(), task);
//   records.keep_spec(match.spec);
//   records.keep_epoch(opens);
//
// Files of one part lie in root/FIRST-COUNT: "specs" (one per line, newest first) and recorded epochs
// (order/recorded_order.h). Failures to write are logged once and otherwise ignored.
// Thread-safety: every function from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headrace/cache/learn/candidates.h"
#include "headrace/cache/order_learner.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

class Records {
 public:
  // An empty root, or one that cannot be written: specs are kept in memory alone, epochs not at all.
  Records(const std::filesystem::path& root, const SampleRange& range);

  struct Candidates {
    std::vector<CandidateGroup> specs;
    std::vector<CandidateGroup> epochs;  // of an earlier run; this run's own are not among them
  };
  [[nodiscard]] Candidates candidates() const;
  void keep_spec(const std::string& spec);
  // The next epoch of this run. The first one replaces the epochs of the run before.
  void keep_epoch(const std::vector<SampleIndex>& samples);

 private:
  [[nodiscard]] std::vector<std::string> specs() const HEADRACE_REQUIRES(mutex_);
  void start_anew() HEADRACE_REQUIRES(mutex_);

  const std::filesystem::path folder_;
  mutable io::Mutex mutex_;
  std::uint64_t epochs_kept_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> specs_ HEADRACE_GUARDED_BY(mutex_);  // newest first; where there is no folder, or
  bool cannot_write_ HEADRACE_GUARDED_BY(mutex_) = false;       // it takes none
};

}  // namespace headrace::cache
