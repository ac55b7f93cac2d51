// SPDX-License-Identifier: Apache-2.0
// Fetches entries into the store's disk tiers, or to the peers that are to hold them, many at a time, until all are
// there or there is no more room.
//
//   Warmer warmer(store, std::move(entries), {});
//   while (!warmer.wait_for(200ms)) progress.update(warmer.state().done);
//   report(warmer.state());
//
// Thread-safety: state() and cancel() from any thread.
// Ownership: the store outlives it. The destructor cancels the work and joins the thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "headrace/cache/store.h"
#include "headrace/cli/show/progress.h"

namespace headrace::cli {

struct WarmerOptions {
  std::uint64_t rate_bytes_per_second = 0;  // how fast the source may be read; 0: no limit
  bool to_peers = false;
};

struct WarmerState {
  Amount done;  // what lies in a disk tier or with a peer now
  Amount held;  // the part of it that was there before
  Amount total;
  std::uint64_t failed = 0;
  std::string first_failure;  // why the first of them failed
  bool full = false;          // it ended because the tiers, or the peers, are full
  bool to_peers = false;      // as in the options
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

// {"samples", "bytes", "held_samples", "wanted_samples", "wanted_bytes", "failed", "full", "seconds"}
[[nodiscard]] nlohmann::json to_json(const WarmerState& state, double seconds);
// "4000 samples, 412 MiB in 0:12 (33.1 MiB/s)", then how much was there before, and why the rest was not fetched.
[[nodiscard]] std::string summarise(const WarmerState& state, double seconds);
// Errors: kCancelled (samples are left), kSystem (some failed).
[[nodiscard]] io::Status check_outcome(const WarmerState& state);

}  // namespace headrace::cli
