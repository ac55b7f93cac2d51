// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/disk/tier_state.h"

#include <cerrno>
#include <utility>

#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

using io::Error;
using io::ErrorCode;
using io::MutexLock;

// 16: a bad sector costs a few; a disk that fails all of them is gone.
constexpr std::uint64_t kReadErrorsMax = 16;

}  // namespace

void TierState::note_full() {
  State ok = State::kOk;
  if (state_.compare_exchange_strong(ok, State::kFull)) io::log_info("tier {}: full", tier_path_);
}

void TierState::note_room() {
  State full = State::kFull;
  state_.compare_exchange_strong(full, State::kOk);
}

void TierState::note_write_error(const Error& error) {
  if (error.code == ErrorCode::kCancelled || has_ended()) return;
  errors_.fetch_add(1, std::memory_order_relaxed);
  const State state = error.code == ErrorCode::kNoSpace ? State::kNoSpace
                      : error.os_errno == EROFS         ? State::kReadOnly
                                                        : State::kWriteFailed;
  if (state_.load() != state) set(state, error.message());
}

void TierState::note_read_error(const Error& error) {
  if (error.code == ErrorCode::kCancelled) return;
  errors_.fetch_add(1, std::memory_order_relaxed);
  if (read_errors_in_a_row_.fetch_add(1) + 1 < kReadErrorsMax) return;
  if (is_read()) set(State::kFailed, error.message());
}

void TierState::set(State state, std::string why) {
  state_.store(state);
  io::log_warning("tier {}: {}; {}", tier_path_, why,
                  state == State::kFailed ? "it is not used any more" : "nothing is added, reads go on");
  MutexLock lock(mutex_);
  why_ = std::move(why);
}

bool TierState::close() {
  return state_.exchange(State::kClosed) < State::kFailed;
}

std::string TierState::describe() const {
  static constexpr const char* kNames[] = {
      "ok", "full", "no space: ", "read-only: ", "write failed: ", "dropped: ", "closed"};
  std::string text = kNames[static_cast<std::size_t>(state_.load())];
  if (!text.ends_with(' ')) return text;
  MutexLock lock(mutex_);
  return text + why_;
}

}  // namespace headrace::cache
