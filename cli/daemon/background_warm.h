// SPDX-License-Identifier: Apache-2.0
// Fills the tiers of a running mount in the background: the disk tiers or the peers first, then the RAM tier.
//
// Thread-safety: every function from any thread.
// Ownership: store and mount outlive it. The destructor cancels the job and joins its thread.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "headrace/cache/store.h"
#include "headrace/cli/warm/warmer.h"
#include "headrace/fuse/mount.h"
#include "headrace/io/mutex.h"

namespace headrace::cli {

struct BackgroundWarmOptions {
  std::vector<cache::EntryId>
      entries;  // for the disk tiers, or by `warmer` for the peers; empty: they stay as they are
  bool ram = false;
  WarmerOptions warmer;
  std::function<void()> on_finished = {};  // on the job's thread; may be empty
};

class BackgroundWarm {
 public:
  BackgroundWarm(cache::Store& store, fuse::Mount& mount, BackgroundWarmOptions options);
  ~BackgroundWarm();
  BackgroundWarm(const BackgroundWarm&) = delete;
  BackgroundWarm& operator=(const BackgroundWarm&) = delete;

  void cancel() { cancelled_ = true; }
  [[nodiscard]] bool finished() const { return finished_; }
  // {"finished", "phase": "disk", "peers" or "ram", "samples", "bytes", "samples_total", "bytes_total", "error",
  // "summary", "results"}; results: {"disk" or "peers": see warmer.h, "ram": {"samples", "bytes", "seconds"}}, of
  // phases that ended
  [[nodiscard]] nlohmann::json state() const;

 private:
  struct Result {  // of a phase that ended
    double seconds = 0;
    WarmerState disk;  // or of the peers
    Amount ram;
  };
  struct State {
    std::string phase;
    Amount done;
    Amount total;
    std::string error;                 // the job failed
    std::vector<std::string> summary;  // one line for each phase that ended
    std::optional<Result> disk;
    std::optional<Result> ram;
  };
  void run(BackgroundWarmOptions options);
  void bring(BackgroundWarmOptions& options);
  void fill_ram();

  cache::Store& store_;
  fuse::Mount& mount_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> finished_{false};
  mutable io::Mutex mutex_;
  State state_ HEADRACE_GUARDED_BY(mutex_);
  std::thread thread_;  // last: uses all of the above
};

}  // namespace headrace::cli
