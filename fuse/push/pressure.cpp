// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/pressure.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>

namespace headrace::fuse {

namespace {

constexpr std::chrono::seconds kRound{1};
constexpr int kQuietRounds = 10;
// What lies in the page cache by then was pushed under the new division of the budget.
constexpr int kSettleRounds = 60;
// The machine is short where, beside what was pushed, less than this part of the budget is to be had: the next that is
// pushed would take it from somebody.
constexpr std::uint64_t kSpareShare = 4;

// Tells a shortage of memory from a kernel that drops pages for other reasons, round by round.
class Judge {
 public:
  enum class Finding : std::uint8_t { kQuiet, kPressed, kDropped };

  Judge(std::uint64_t full_bytes, bool has_psi, const PressureCallbacks& callbacks)
      : full_bytes_(full_bytes), has_psi_(has_psi), callbacks_(callbacks) {}

  Finding judge(const io::MemoryPressure::Signs& signs) {
    std::string reason = shortage(signs);
    const bool is_losing = reason.empty() && callbacks_.is_losing();
    if (is_losing) reason = shortage_of_losses();
    quiet_rounds_ = reason.empty() ? quiet_rounds_ + 1 : 0;
    settled_rounds_ = std::min(settled_rounds_ + 1, kSettleRounds);
    if (!reason.empty()) {
      reason_ = std::move(reason);
      return Finding::kPressed;
    }
    if (!is_losing || settled_rounds_ < kSettleRounds) return Finding::kQuiet;
    settled_rounds_ = 0;
    return Finding::kDropped;
  }
  // Once in so many rounds without pressure.
  [[nodiscard]] bool may_grow() const { return quiet_rounds_ > 0 && quiet_rounds_ % kQuietRounds == 0; }
  [[nodiscard]] const std::string& reason() const { return reason_; }  // of the last shortage

 private:
  // Empty: there is none.
  [[nodiscard]] std::string shortage(const io::MemoryPressure::Signs& signs) const {
    if (signs.group_waits) return "programs of this control group wait for memory";
    if (!signs.machine_waits) return "";
    if (callbacks_.is_near_limit()) return "programs wait for memory, and this control group is near its limit";
    const std::uint64_t held = callbacks_.held_bytes();
    const std::uint64_t left = signs.available_bytes - std::min(signs.available_bytes, held);
    if (left >= full_bytes_ / kSpareShare) return "";
    return fmt::format("programs wait for memory, and beside pushed samples the machine has {} MiB left", left >> 20);
  }
  [[nodiscard]] std::string shortage_of_losses() const {
    if (callbacks_.is_near_limit()) return "the kernel drops pushed pages, and this control group is near its limit";
    if (!has_psi_) return "the kernel drops pushed pages, and does not say whether memory is short";
    return quiet_rounds_ < kQuietRounds ? reason_ : "";
  }

  const std::uint64_t full_bytes_;
  const bool has_psi_;
  const PressureCallbacks& callbacks_;
  std::string reason_;
  int quiet_rounds_ = kQuietRounds;
  int settled_rounds_ = kSettleRounds;
};

}  // namespace

bool PressureBudget::on_pressure() {
  const std::uint64_t before = std::exchange(bytes_, std::max(full_bytes_ / 8, bytes_ / 4 * 3));
  return bytes_ != before;
}

bool PressureBudget::on_quiet() {
  const std::uint64_t before = std::exchange(bytes_, std::min(full_bytes_, bytes_ + full_bytes_ / 16));
  return bytes_ != before;
}

PressureWatch::PressureWatch(std::uint64_t full_bytes, PressureCallbacks callbacks)
    : full_bytes_(full_bytes), callbacks_(std::move(callbacks)), pressure_(callbacks_.paths), thread_([this] {
        ::pthread_setname_np(::pthread_self(), "hr-pressure");
        run();
      }) {}

PressureWatch::~PressureWatch() {
  {
    io::MutexLock lock(mutex_);
    stop_ = true;
    stopping_.notify_one();
  }
  thread_.join();
}

bool PressureWatch::wait_for_next_round() {
  const auto deadline = std::chrono::steady_clock::now() + kRound;
  io::MutexLock lock(mutex_);
  while (!stop_) {
    if (!stopping_.wait_until(lock, deadline)) return !stop_;
  }
  return false;
}

void PressureWatch::run() {
  PressureBudget budget(full_bytes_);
  Judge judge(full_bytes_, has_psi(), callbacks_);
  while (wait_for_next_round()) {
    const Judge::Finding finding = judge.judge(pressure_.look());
    if (finding == Judge::Finding::kDropped) callbacks_.on_dropped();
    const bool is_pressed = finding == Judge::Finding::kPressed;
    const bool changed = is_pressed ? budget.on_pressure() : judge.may_grow() && budget.on_quiet();
    if (changed) callbacks_.on_change(budget.bytes(), budget.is_full() ? "" : judge.reason());
  }
}

}  // namespace headrace::fuse
