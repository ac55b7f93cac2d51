// SPDX-License-Identifier: Apache-2.0
// Whether a disk tier takes records and is read, and why not.
//
//   TierState state("/ssd/cache");
//   if (state.takes_records()) ...
//   state.note_write_error(error);   // logged once; describe() says it from then on
//
// A failed write (full disk, I/O error, read-only) ends admission, and reads go on. A full disk, or a process that is
// short of descriptors or memory, is tried again after 1 s, then after twice as long each time, at most a minute. After
// 16 failed reads in a row, but for those that such a shortage makes fail, the tier is not asked any more.
//
// Thread-safety: every function from any thread. Lock order: mutex_ is a leaf.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "headrace/io/mutex.h"
#include "headrace/io/result.h"

namespace headrace::cache {

class TierState {
 public:
  explicit TierState(std::string tier_path) : tier_path_(std::move(tier_path)) {}

  [[nodiscard]] bool takes_records() { return state_.load(std::memory_order_relaxed) == State::kOk || retries(); }
  // Records that were handed over before close() still reach the disk.
  [[nodiscard]] bool finishes_records() { return takes_records() || is_closed(); }
  [[nodiscard]] bool is_read() const { return state_.load(std::memory_order_relaxed) != State::kFailed; }
  [[nodiscard]] bool is_closed() const { return state_.load() == State::kClosed; }
  // Closed, or not used any more.
  [[nodiscard]] bool has_ended() const { return state_.load() >= State::kFailed; }

  void note_full();
  void note_room();  // it is not full any more
  // Nothing is added, so that `keep_free_bytes` of its file system stay free, until note_space() or note_room().
  void note_short(std::uint64_t keep_free_bytes);
  void note_space();
  void note_write_error(const io::Error& error);
  void note_good_write() {
    if (retry_in_ms_.load(std::memory_order_relaxed) != 0) end_retries();
  }
  // Whether it says nothing of the disk: the same read may succeed a moment later.
  [[nodiscard]] static bool may_pass(const io::Error& error);
  void note_read_error(const io::Error& error);
  void note_good_read() { read_errors_in_a_row_.store(0, std::memory_order_relaxed); }
  // Another process has the tier; until note_free() it is neither read nor written.
  void note_busy(const io::Error& error) { set(State::kBusy, error.message()); }
  void note_free();
  // It cannot be used, and is not tried again.
  void note_unusable(const io::Error& error) { set(State::kFailed, error.message()); }
  // False: it had ended before.
  [[nodiscard]] bool close();

  [[nodiscard]] std::uint64_t errors() const { return errors_.load(); }
  [[nodiscard]] std::string describe() const;  // for TierStats::state

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t { kOk, kFull, kShort, kNoSpace, kReadOnly, kWriteFailed, kBusy, kFailed, kClosed };
  // False: the tier has failed or is closed, and stays so.
  bool change_to(State state);
  void set(State state, std::string why);
  void try_later(std::string why, bool lacks_space);
  [[nodiscard]] bool retries();
  void end_retries();

  const std::string tier_path_;
  std::atomic<State> state_ = State::kOk;
  std::atomic<std::uint64_t> read_errors_in_a_row_ = 0;
  std::atomic<std::uint64_t> errors_ = 0;
  std::atomic<std::int64_t> retry_in_ms_ = 0;  // the pause before a full disk is tried again; 0: it was not full
  std::atomic<Clock::time_point> retry_at_ = Clock::time_point{};
  std::atomic<bool> lacks_space_ = true;  // in the state kNoSpace; false: something else that may pass is short
  mutable io::Mutex mutex_;
  std::string why_ HEADRACE_GUARDED_BY(mutex_);  // the error that set the state
};

}  // namespace headrace::cache
