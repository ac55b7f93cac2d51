// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/interrupts.h"

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include <sys/timerfd.h>
#include <unistd.h>

namespace headrace::fuse {
using io::MutexLock;

namespace {

// People who kill a program see no delay in half a second, and two looks a second cost nothing.
constexpr long kLookNanoseconds = 500'000'000;
// The log knows a request some microseconds after it was read: at the second look it does, or it was answered.
constexpr unsigned kUnknownMax = 2;

}  // namespace

Interrupts::Interrupts() : timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {}

void Interrupts::note(std::uint64_t unique) {
  MutexLock lock(mutex_);
  if (noted_.empty()) set_timer(true);
  noted_.try_emplace(unique, 0);
}

std::vector<std::uint64_t> Interrupts::take_killed(RequestLog& log) {
  std::vector<std::uint64_t> killed;
  MutexLock lock(mutex_);
  std::uint64_t ticks = 0;
  [[maybe_unused]] const ssize_t ignored = ::read(timer_.get(), &ticks, sizeof(ticks));
  for (auto each = noted_.begin(); each != noted_.end();) {
    const auto request = each++;
    const std::optional<pid_t> asker = log.asker(request->first);
    const bool is_gone = !asker && ++request->second == kUnknownMax;
    const bool may_go = asker && is_killed(*asker);
    if (may_go) killed.push_back(request->first);
    if (may_go || is_gone) noted_.erase(request);
  }
  if (noted_.empty()) set_timer(false);
  return killed;
}

void Interrupts::set_timer(bool runs) {
  const timespec every = {0, runs ? kLookNanoseconds : 0};
  const itimerspec times = {every, every};
  ::timerfd_settime(timer_.get(), 0, &times, nullptr);
}

// The kernel makes every signal that ends a process a SIGKILL of its threads, but those that leave a core file.
bool is_killed(pid_t thread) {
  constexpr std::uint64_t kKill = std::uint64_t{1} << (SIGKILL - 1);
  std::ifstream status("/proc/" + std::to_string(thread) + "/status");
  std::uint64_t pending = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigPnd:") || line.starts_with("ShdPnd:"))
      pending |= std::strtoull(line.c_str() + sizeof("SigPnd:") - 1, nullptr, 16);
  }
  return (pending & kKill) != 0;
}

}  // namespace headrace::fuse
