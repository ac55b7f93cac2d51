// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/peer_watch.h"

#include <random>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>

#include "headrace/cli/setup/peer_list.h"
#include "headrace/io/log.h"

namespace headrace::cli {
namespace {

using io::MutexLock;
using std::chrono::milliseconds;

io::Result<PeerWatch::Names> list_some(const PeerWatch::Names& words) {
  HEADRACE_TRY(names, list_peers(words));
  if (names.empty()) return io::make_error(io::ErrorCode::kInvalidArgument, "the list of peers is empty");
  return names;
}

}  // namespace

PeerWatch::PeerWatch(Names words, Names names, Use use, PeerWatchTimes times)
    : use_(std::move(use)), times_(times), used_(std::move(names)), seen_(used_), state_{std::move(words), ""} {
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "hr-peer-list");
    run();
  });
}

PeerWatch::~PeerWatch() {
  {
    MutexLock lock(mutex_);
    ends_ = true;
    ended_.notify_all();
  }
  slow_.stop();
  thread_.join();
}

io::Result<PeerWatch::Names> PeerWatch::list(const Names& words) {
  if (!is_looked_up(words)) return list_some(words);
  auto names = slow_.within(times_.patience, [words] { return list_some(words); });
  if (names) return std::move(*names);
  return io::make_error(io::ErrorCode::kTimedOut,
                        fmt::format("{} is not there after {} s: whoever serves it does not answer",
                                    fmt::join(words, ","), times_.patience.count() / 1000));
}

io::Status PeerWatch::change(const Names& words) {
  MutexLock change(change_mutex_);
  HEADRACE_TRY(names, list(words));
  HEADRACE_TRY_DO(use_(names));
  io::log_info("peers: {} from now on", fmt::join(names, ", "));
  used_ = std::move(names);
  seen_ = used_;
  MutexLock lock(mutex_);
  state_ = {words, ""};
  return {};
}

PeerWatch::State PeerWatch::state() const {
  MutexLock lock(mutex_);
  return state_;
}

// A third earlier or later each time, so that nodes that were started together do not ask together.
void PeerWatch::run() {
  std::minstd_rand random{std::random_device()()};
  milliseconds pause = look(true);
  while (true) {
    const auto third = pause.count() / 3;
    const auto due = std::chrono::steady_clock::now() + pause +
                     milliseconds(std::uniform_int_distribution<milliseconds::rep>(-third, third)(random));
    {
      MutexLock lock(mutex_);
      while (!ends_ && ended_.wait_until(lock, due)) {
      }
      if (ends_) return;
    }
    pause = look(false);
  }
}

// Returns how long to wait for the next look.
milliseconds PeerWatch::look(bool is_first) {
  MutexLock change(change_mutex_);
  io::Result<Names> names = list(state().words);
  if (!names) {
    note_failure(names.error().message());
    return times_.every;
  }
  const bool is_settled = is_first || *names == used_ || *names == seen_;
  seen_ = *names;
  if (!is_settled) return times_.settle;
  // Also where it has not changed: a name may lead elsewhere.
  const io::Status used = use_(*names);
  note_failure(used ? "" : used.error().message());
  if (used && *names != used_) {
    io::log_info("peers: the list is another one by now: {}", fmt::join(*names, ", "));
    used_ = std::move(*names);
  }
  return times_.every;
}

// What stays as it is, is said once.
void PeerWatch::note_failure(const std::string& failure) {
  MutexLock lock(mutex_);
  if (state_.failure == failure) return;
  state_.failure = failure;
  lock.unlock();
  if (!failure.empty()) io::log_warning("peers: {}; they stay as they are", failure);
}

}  // namespace headrace::cli
