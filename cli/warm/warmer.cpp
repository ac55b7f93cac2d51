// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/warm/warmer.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <pthread.h>

#include "headrace/cli/show/figures.h"
#include "headrace/io/mutex.h"

namespace headrace::cli {
namespace {

using std::chrono::steady_clock;

// 256 reads keep a device with a deep queue busy. The bytes bound the memory that large files take.
constexpr std::uint64_t kInFlightMax = 256;
constexpr std::uint64_t kInFlightBytesMax = std::uint64_t{256} << 20;

struct Job {
  std::uint64_t bytes = 0;
  bool is_held = false;  // by the tiers before
  [[nodiscard]] std::uint64_t bytes_to_fetch() const { return is_held ? 0 : bytes; }
};

void count(Amount& amount, std::uint64_t bytes) {
  ++amount.samples;
  amount.bytes += bytes;
}

}  // namespace

struct Warmer::Impl {
  cache::Store& store;
  const std::vector<cache::EntryId> entries;
  const WarmerOptions options;
  const steady_clock::time_point started = steady_clock::now();

  mutable io::Mutex mutex;
  io::CondVar changed;
  WarmerState state HEADRACE_GUARDED_BY(mutex);
  Amount in_flight HEADRACE_GUARDED_BY(mutex);

  std::thread thread;  // last: uses all of the above

  Impl(cache::Store& the_store, std::vector<cache::EntryId> the_entries, WarmerOptions the_options)
      : store(the_store), entries(std::move(the_entries)), options(the_options) {
    state.to_peers = options.to_peers;
    state.total.samples = entries.size();
    for (const cache::EntryId entry : entries) state.total.bytes += store.catalog().size_bytes(entry);
    thread = std::thread([this] { run(); });
  }

  void run();
  [[nodiscard]] bool wait_for_place(const Job& job, std::uint64_t issued_bytes);
  void on_warmed(const Job& job, const io::Status& status);
  void finish();
};

void Warmer::Impl::run() {
  ::pthread_setname_np(::pthread_self(), "hr-warm");
  std::uint64_t issued_bytes = 0;
  for (const cache::EntryId entry : entries) {
    const std::uint64_t bytes = store.catalog().size_bytes(entry);
    // What an earlier run has fetched is not fetched again, so a warm can be stopped and go on later. But the store may
    // have to ask the source whether it is still the same.
    const Job job{.bytes = bytes, .is_held = !options.to_peers && store.is_on_disk(entry)};
    if (!wait_for_place(job, issued_bytes)) break;
    issued_bytes += job.bytes_to_fetch();
    const auto done = [this, job](const io::Status& status) { on_warmed(job, status); };
    options.to_peers ? store.share(entry, done) : store.warm(entry, done);
  }
  finish();
}

// Waits for a place among the reads in flight and for the rate limit. False: no more reads are to be started.
bool Warmer::Impl::wait_for_place(const Job& job, std::uint64_t issued_bytes) {
  io::MutexLock lock(mutex);
  const auto ended = [this]() HEADRACE_REQUIRES(mutex) { return state.cancelled || state.full; };
  const std::uint64_t bytes = job.bytes_to_fetch();
  if (options.rate_bytes_per_second > 0 && bytes > 0) {
    const std::chrono::duration<double> due(static_cast<double>(issued_bytes) /
                                            static_cast<double>(options.rate_bytes_per_second));
    const auto due_time = started + std::chrono::duration_cast<steady_clock::duration>(due);
    while (!ended() && changed.wait_until(lock, due_time)) {
    }
  }
  while (!ended() && in_flight.samples > 0 &&
         (in_flight.samples >= kInFlightMax || in_flight.bytes + bytes > kInFlightBytesMax)) {
    changed.wait(lock);
  }
  if (ended()) return false;
  ++in_flight.samples;
  in_flight.bytes += bytes;
  return true;
}

void Warmer::Impl::on_warmed(const Job& job, const io::Status& status) {
  io::MutexLock lock(mutex);
  --in_flight.samples;
  in_flight.bytes -= job.bytes_to_fetch();
  if (status) {
    count(state.done, job.bytes);
    if (job.is_held) count(state.held, job.bytes);
  } else if (status.error().code == io::ErrorCode::kNoSpace) {
    state.full = true;
  } else {
    if (state.failed++ == 0) state.first_failure = status.error().message();
  }
  changed.notify_all();  // under the lock: afterwards the Warmer may be gone
}

void Warmer::Impl::finish() {
  {
    io::MutexLock lock(mutex);
    while (in_flight.samples > 0) changed.wait(lock);
  }
  const io::Status flushed = store.flush();
  io::MutexLock lock(mutex);
  if (!flushed && state.failed++ == 0) state.first_failure = flushed.error().message();
  state.finished = true;
  changed.notify_all();
}

Warmer::Warmer(cache::Store& store, std::vector<cache::EntryId> entries, WarmerOptions options)
    : impl_(std::make_unique<Impl>(store, std::move(entries), options)) {}

Warmer::~Warmer() {
  cancel();
  impl_->thread.join();
}

bool Warmer::wait_for(std::chrono::milliseconds time) {
  const auto deadline = steady_clock::now() + time;
  io::MutexLock lock(impl_->mutex);
  while (!impl_->state.finished) {
    if (!impl_->changed.wait_until(lock, deadline)) return impl_->state.finished;
  }
  return true;
}

void Warmer::cancel() {
  io::MutexLock lock(impl_->mutex);
  if (!impl_->state.finished) impl_->state.cancelled = true;
  impl_->changed.notify_all();
}

WarmerState Warmer::state() const {
  io::MutexLock lock(impl_->mutex);
  return impl_->state;
}

nlohmann::json to_json(const WarmerState& state, double seconds) {
  return {{"samples", state.done.samples},
          {"bytes", state.done.bytes},
          {"held_samples", state.held.samples},
          {"wanted_samples", state.total.samples},
          {"wanted_bytes", state.total.bytes},
          {"failed", state.failed},
          {"full", state.full},
          {"seconds", seconds}};
}

io::Status check_outcome(const WarmerState& state) {
  if (state.cancelled) return io::make_error(io::ErrorCode::kCancelled, "stopped by a signal; call again to go on");
  if (state.failed > 0) return io::make_error(io::ErrorCode::kSystem, fmt::format("{} samples failed", state.failed));
  return {};
}

std::string summarise(const WarmerState& state, double seconds) {
  const double fetched_bytes = static_cast<double>(state.done.bytes - state.held.bytes);
  const auto rate = static_cast<std::uint64_t>(fetched_bytes / std::max(seconds, 1e-3));
  std::string line =
      fmt::format("{} samples, {} in {}", state.done.samples, format_size(state.done.bytes), format_duration(seconds));
  if (fetched_bytes > 0) line += fmt::format(" ({}/s)", format_size(rate));
  if (state.held.samples > 0) line += fmt::format("; {} were there already", state.held.samples);
  const std::uint64_t left = state.total.samples - state.done.samples - state.failed;
  if (state.full) {
    line += fmt::format("; {} full, {} samples stay on the source",
                        state.to_peers ? "this node's memcached is" : "the disk tiers are", left);
  }
  if (state.cancelled) line += fmt::format("; stopped, {} samples are left", left);
  if (state.failed > 0) line += fmt::format("; {} failed, first: {}", state.failed, state.first_failure);
  return line;
}

}  // namespace headrace::cli
