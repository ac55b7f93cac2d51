// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/background_warm.h"

#include <chrono>
#include <cstdint>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <pthread.h>

#include "headrace/cli/show/figures.h"

namespace headrace::cli {

using std::chrono::steady_clock;

namespace {

const char* phase_of(const WarmerState& state) {
  return state.to_peers ? "peers" : "disk";
}

}  // namespace

BackgroundWarm::BackgroundWarm(cache::Store& store, fuse::Mount& mount, BackgroundWarmOptions options)
    : store_(store), mount_(mount), thread_([this, options = std::move(options)]() mutable {
        ::pthread_setname_np(::pthread_self(), "hr-warm-job");
        run(std::move(options));
      }) {}

BackgroundWarm::~BackgroundWarm() {
  cancel();
  thread_.join();
}

void BackgroundWarm::run(BackgroundWarmOptions options) {
  if (!options.entries.empty()) bring(options);
  if (options.ram && !cancelled_) fill_ram();
  if (options.on_finished) options.on_finished();  // first: from `finished_` on the next one may begin
  finished_ = true;
}

void BackgroundWarm::bring(BackgroundWarmOptions& options) {
  constexpr std::chrono::milliseconds kStep{100};  // between two looks at the progress and at a cancel
  const auto started = steady_clock::now();
  Warmer warmer(store_, std::move(options.entries), options.warmer);
  bool finished = false;
  while (!finished) {
    finished = warmer.wait_for(kStep);
    if (cancelled_) warmer.cancel();
    const WarmerState now = warmer.state();
    io::MutexLock lock(mutex_);
    state_.phase = phase_of(now);
    state_.done = now.done;
    state_.total = now.total;
  }
  io::MutexLock lock(mutex_);
  state_.disk = {.seconds = seconds_since(started), .disk = warmer.state()};
  const char* what = state_.disk->disk.to_peers ? "this node's part: " : "disk tiers: ";
  state_.summary.push_back(what + summarise(state_.disk->disk, state_.disk->seconds));
  if (const io::Status outcome = check_outcome(state_.disk->disk); !outcome) state_.error = outcome.error().message();
}

void BackgroundWarm::fill_ram() {
  const auto started = steady_clock::now();
  std::uint64_t missing = 0;
  const io::Status status = mount_.push_until_full([this, &missing](const fuse::PushProgress& now) {
    io::MutexLock lock(mutex_);
    state_.phase = "ram";
    state_.done = {.samples = now.held_samples, .bytes = now.held_bytes};
    state_.total = {.samples = now.target_samples, .bytes = now.target_bytes};
    missing = now.missing_samples;
    return !cancelled_;
  });
  io::MutexLock lock(mutex_);
  if (!status) {
    state_.error = status.error().message();
    return;
  }
  state_.ram = {.seconds = seconds_since(started), .ram = state_.done};
  state_.summary.push_back(fmt::format("RAM tier: {} samples, {} held after {}", state_.done.samples,
                                       format_size(state_.done.bytes), format_duration(state_.ram->seconds)));
  if (missing == 0 || cancelled_) return;
  state_.error = fmt::format(
      "{} samples are not in memory: they could not be read, or memory ran short; the log says why", missing);
}

nlohmann::json BackgroundWarm::state() const {
  const bool finished = finished_;  // read first: when it is true, the rest is final
  io::MutexLock lock(mutex_);
  nlohmann::json results = nlohmann::json::object();
  if (state_.disk) results[phase_of(state_.disk->disk)] = to_json(state_.disk->disk, state_.disk->seconds);
  if (state_.ram) {
    results["ram"] = {
        {"samples", state_.ram->ram.samples}, {"bytes", state_.ram->ram.bytes}, {"seconds", state_.ram->seconds}};
  }
  return {{"finished", finished},
          {"phase", state_.phase},
          {"samples", state_.done.samples},
          {"bytes", state_.done.bytes},
          {"samples_total", state_.total.samples},
          {"bytes_total", state_.total.bytes},
          {"error", state_.error},
          {"summary", state_.summary},
          {"results", std::move(results)}};
}

}  // namespace headrace::cli
