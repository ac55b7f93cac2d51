// SPDX-License-Identifier: Apache-2.0
// Keeps access keys fresh: finds them once, and again before they expire, on a thread of its own.
//
//   HEADRACE_TRY(keeper, KeyKeeper::open(sources));
//   sign_with(keeper->current()->keys);
//   keeper->renew(used, [] { ... });   // the store has refused these
//
// Thread-safety: every function from any thread; join() once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "headrace/cache/source/object/key_schedule.h"
#include "headrace/cache/source/object/key_sources.h"
#include "headrace/io/mutex.h"
#include "headrace/io/result.h"

namespace headrace::cache {

class KeyKeeper {
 public:
  using KeysPtr = std::shared_ptr<const FoundKeys>;

  // Errors: those of find_keys(); kPermission: there are none.
  [[nodiscard]] static io::Result<std::unique_ptr<KeyKeeper>> open(KeySources sources);
  ~KeyKeeper() { join(); }
  KeyKeeper(const KeyKeeper&) = delete;
  KeyKeeper& operator=(const KeyKeeper&) = delete;

  [[nodiscard]] KeysPtr current() const;
  // `done` runs on the keeper's thread when current() is another one, or when none was found. After join() it runs at
  // once. What was refused is not asked for anew more than once a second.
  void renew(const KeysPtr& refused, std::function<void()> done);
  // Does not wait for a service or a program that hangs.
  void join();

 private:
  KeyKeeper(KeySources sources, FoundKeys found);
  void run();
  [[nodiscard]] std::optional<FoundKeys> find_again() const;
  void take(std::optional<FoundKeys> fresh) HEADRACE_REQUIRES(mutex_);

  struct Waiting {
    KeysPtr refused;
    std::function<void()> done;
  };

  KeySources sources_;  // constant after construction
  StopEvent stop_;
  mutable io::Mutex mutex_;
  io::CondVar changed_;
  KeysPtr current_ HEADRACE_GUARDED_BY(mutex_);
  std::vector<Waiting> waiting_ HEADRACE_GUARDED_BY(mutex_);
  KeySchedule schedule_ HEADRACE_GUARDED_BY(mutex_);
  bool closed_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace headrace::cache
