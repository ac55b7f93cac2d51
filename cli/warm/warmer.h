// SPDX-License-Identifier: Apache-2.0
// Brings entries into the store's disk tiers, as many at once as helps, until all are there or the tiers are full.
//
//   Warmer warmer(store, std::move(entries), {});
//   while (!warmer.wait_for(200ms)) progress.update(warmer.state().done);
//   report(warmer.state());
//
// Thread-safety: state() and cancel() from any thread. Ownership: the store outlives it; destruction cancels and joins.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "headrace/cache/store.h"
#include "headrace/cli/show/progress.h"

namespace headrace::cli {

struct WarmerOptions {
  std::uint64_t rate_bytes_per_second = 0;  // how fast the source may be read; 0: as fast as it goes
};

struct WarmerState {
  Amount done;  // in a disk tier now
  Amount held;  // of these, what was there before
  Amount total;
  std::uint64_t failed = 0;
  std::string first_failure;  // what went wrong first
  bool full = false;          // ended because the tiers are full
  bool cancelled = false;
  bool finished = false;  // everything above is final and on the disk
};

class Warmer {
 public:
  Warmer(cache::Store& store, std::vector<cache::EntryId> entries, WarmerOptions options);
  ~Warmer();
  Warmer(const Warmer&) = delete;
  Warmer& operator=(const Warmer&) = delete;

  // True once finished.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds time);
  void cancel();
  [[nodiscard]] WarmerState state() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "4000 samples, 412 MiB in 0:12 (33.1 MiB/s)", how much of that was there before, and what kept it from being all.
[[nodiscard]] std::string summarise(const WarmerState& state, double seconds);

}  // namespace headrace::cli
