// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/pressure.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace headrace::fuse {
using io::Result;

namespace {

constexpr const char* kPressureFile = "/proc/pressure/memory";
// Some task waited for memory during 200 ms of 2 s, the shortest window that is open to users without privileges.
constexpr std::string_view kTrigger = "some 200000 2000000";
constexpr int kRoundMs = 1000;
constexpr int kQuietRounds = 10;
// What lies in the page cache by then was pushed under the new division of the budget.
constexpr int kSettleRounds = 60;

// Tells a shortage of memory from a kernel that drops pages for other reasons, round by round.
class Judge {
 public:
  enum class Finding : std::uint8_t { kQuiet, kPressed, kDropped };

  // `is_waited_for`: PSI says so; `has_psi`: it can say so.
  Finding judge(bool is_waited_for, bool has_psi, const PressureCallbacks& callbacks) {
    const bool is_losing = !is_waited_for && callbacks.is_losing();
    const bool explains_losses = !has_psi || quiet_rounds_ < kQuietRounds;
    const bool is_pressed = is_waited_for || (is_losing && (explains_losses || callbacks.is_near_limit()));
    quiet_rounds_ = is_pressed ? 0 : quiet_rounds_ + 1;
    settled_rounds_ = std::min(settled_rounds_ + 1, kSettleRounds);
    if (is_pressed) return Finding::kPressed;
    if (!is_losing || settled_rounds_ < kSettleRounds) return Finding::kQuiet;
    settled_rounds_ = 0;
    return Finding::kDropped;
  }
  // Once in so many rounds without pressure.
  [[nodiscard]] bool may_grow() const { return quiet_rounds_ > 0 && quiet_rounds_ % kQuietRounds == 0; }

 private:
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

Result<std::unique_ptr<PressureWatch>> PressureWatch::start(std::uint64_t full_bytes, PressureCallbacks callbacks) {
  std::unique_ptr<PressureWatch> watch(new PressureWatch);
  if (io::Status asked = watch->ask_for_psi(); !asked) watch->no_psi_ = std::move(asked.error());
  watch->stop_fd_.reset(::eventfd(0, EFD_CLOEXEC));
  if (!watch->stop_fd_.valid()) return io::system_error(errno, "eventfd");
  watch->thread_ = std::thread([self = watch.get(), full_bytes, callbacks = std::move(callbacks)] {
    ::pthread_setname_np(::pthread_self(), "hr-pressure");
    self->run(PressureBudget(full_bytes), callbacks);
  });
  return watch;
}

io::Status PressureWatch::ask_for_psi() {
  io::UniqueFd file(::open(kPressureFile, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) return io::system_error(errno, kPressureFile);
  if (::write(file.get(), kTrigger.data(), kTrigger.size() + 1) < 0) return io::system_error(errno, kPressureFile);
  pressure_fd_ = std::move(file);
  return {};
}

PressureWatch::~PressureWatch() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop_fd_.get(), &one, sizeof(one));  // cannot fail: the count is 0
    thread_.join();
  }
}

void PressureWatch::run(PressureBudget budget, const PressureCallbacks& callbacks) const {
  std::array<pollfd, 2> waited = {{{pressure_fd_.get(), POLLPRI, 0}, {stop_fd_.get(), POLLIN, 0}}};
  Judge judge;
  while (true) {
    const int ready = ::poll(waited.data(), waited.size(), kRoundMs);
    if (ready < 0 && errno != EINTR) return;
    if (ready < 0) continue;
    if (waited[1].revents != 0) return;
    if ((waited[0].revents & POLLERR) != 0) waited[0].fd = -1;  // the file has gone
    const Judge::Finding finding = judge.judge((waited[0].revents & POLLPRI) != 0, waited[0].fd >= 0, callbacks);
    if (finding == Judge::Finding::kDropped) callbacks.on_dropped();
    const bool is_pressed = finding == Judge::Finding::kPressed;
    const bool changed = is_pressed ? budget.on_pressure() : judge.may_grow() && budget.on_quiet();
    if (changed) callbacks.on_change(budget.bytes());
  }
}

}  // namespace headrace::fuse
