// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/disk/tier_state.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

using io::Error;
using io::ErrorCode;
using io::MutexLock;

// 16: a bad sector costs a few; a disk that fails all of them is gone.
constexpr std::uint64_t kReadErrorsMax = 16;
// 1 s: whoever makes room expects to see it used. A minute: one failing call costs nothing, and a log stays readable.
constexpr std::int64_t kFirstRetryMs = 1'000;
constexpr std::int64_t kLastRetryMs = 60'000;

// A process, or a machine, is short of something that others may give back: no word of the disk.
bool is_passing(int os_errno) {
  return os_errno == EMFILE || os_errno == ENFILE || os_errno == ENOMEM || os_errno == EINTR || os_errno == EAGAIN;
}

}  // namespace

bool TierState::may_pass(const Error& error) {
  return error.code == ErrorCode::kCancelled || is_passing(error.os_errno);
}

void TierState::note_full() {
  State ok = State::kOk;
  if (state_.compare_exchange_strong(ok, State::kFull)) io::log_info("tier {}: full", tier_path_);
}

void TierState::note_room() {
  State full = State::kFull;
  if (state_.compare_exchange_strong(full, State::kOk)) return;
  full = State::kShort;
  state_.compare_exchange_strong(full, State::kOk);
}

void TierState::note_short(std::uint64_t keep_free_bytes) {
  const State before = state_.load();
  if (before != State::kOk && before != State::kFull) return;
  set(State::kShort, fmt::format("{} MiB of its file system are to stay free", keep_free_bytes >> 20));
}

void TierState::note_space() {
  State is_short = State::kShort;
  if (!state_.compare_exchange_strong(is_short, State::kOk)) return;
  io::log_info("tier {}: its file system has space again, and records are added", tier_path_);
}

void TierState::note_free() {
  State busy = State::kBusy;
  if (state_.compare_exchange_strong(busy, State::kOk)) io::log_info("tier {}: is free, and is used now", tier_path_);
}

void TierState::note_write_error(const Error& error) {
  if (error.code == ErrorCode::kCancelled || has_ended()) return;
  errors_.fetch_add(1, std::memory_order_relaxed);
  const bool lacks_space = error.code == ErrorCode::kNoSpace;
  if (lacks_space || is_passing(error.os_errno)) return try_later(error.message(), lacks_space);
  const State state = error.os_errno == EROFS ? State::kReadOnly : State::kWriteFailed;
  if (state_.load() != state) set(state, error.message());
}

// Several writes that were under way may fail together: the pause grows once for them.
void TierState::try_later(std::string why, bool lacks_space) {
  if (state_.load() == State::kNoSpace) return;
  lacks_space_.store(lacks_space);
  const std::int64_t before = retry_in_ms_.load();
  const std::int64_t pause = std::clamp(before * 2, kFirstRetryMs, kLastRetryMs);
  retry_in_ms_.store(pause);
  retry_at_.store(Clock::now() + std::chrono::milliseconds(pause));
  if (before == 0) return set(State::kNoSpace, std::move(why));
  change_to(State::kNoSpace);  // known and logged
}

bool TierState::retries() {
  State no_space = State::kNoSpace;
  if (state_.load(std::memory_order_relaxed) != no_space || Clock::now() < retry_at_.load()) return false;
  return state_.compare_exchange_strong(no_space, State::kOk);
}

void TierState::end_retries() {
  if (state_.load() != State::kOk || retry_in_ms_.exchange(0) == 0) return;
  io::log_info("tier {}: it can be written to again, and records are added", tier_path_);
}

void TierState::note_read_error(const Error& error) {
  if (error.code == ErrorCode::kCancelled) return;
  errors_.fetch_add(1, std::memory_order_relaxed);
  if (may_pass(error)) return;
  if (read_errors_in_a_row_.fetch_add(1) + 1 < kReadErrorsMax) return;
  if (is_read()) set(State::kFailed, error.message());
}

// One thread may find that the disk is dead while another one's write fails.
bool TierState::change_to(State state) {
  State now = state_.load();
  while (now < State::kFailed) {
    if (state_.compare_exchange_weak(now, state)) return true;
  }
  return false;
}

void TierState::set(State state, std::string why) {
  if (!change_to(state)) return;
  const char* const now = state == State::kFailed ? "it is not used any more"
                          : state == State::kBusy ? "it is used once it is free"
                                                  : "nothing is added, reads go on";
  io::log_warning("tier {}: {}; {}", tier_path_, why, now);
  MutexLock lock(mutex_);
  why_ = std::move(why);
}

bool TierState::close() {
  return state_.exchange(State::kClosed) < State::kFailed;
}

std::string TierState::describe() const {
  static constexpr const char* kNames[] = {
      "ok", "full", "short: ", "no space: ", "read-only: ", "write failed: ", "busy: ", "dropped: ", "closed"};
  const State state = state_.load();
  const bool is_short_of_more = state == State::kNoSpace && !lacks_space_.load();
  std::string text = kNames[static_cast<std::size_t>(is_short_of_more ? State::kWriteFailed : state)];
  if (!text.ends_with(' ')) return text;
  {
    MutexLock lock(mutex_);
    text += why_;
  }
  const std::int64_t pause = retry_in_ms_.load();
  return state != State::kNoSpace ? text : fmt::format("{} (tried again every {} s)", text, pause / 1000);
}

}  // namespace headrace::cache
