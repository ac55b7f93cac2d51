// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/key_keeper.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <pthread.h>

#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

using io::MutexLock;
bool are_same(const FoundKeys& one, const FoundKeys& other) {
  return one.keys.id == other.keys.id && one.keys.secret.bytes() == other.keys.secret.bytes() &&
         one.keys.session_token.bytes() == other.keys.session_token.bytes();
}

}  // namespace

io::Result<std::unique_ptr<KeyKeeper>> KeyKeeper::open(KeySources sources) {
  HEADRACE_TRY(found, find_keys(sources));
  if (!found) {
    return io::make_error(io::ErrorCode::kPermission,
                          "no access keys were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or a profile in "
                          "~/.aws, or read a public bucket with --no-sign-request");
  }
  io::log_info("access keys: {}", found->source);
  return std::unique_ptr<KeyKeeper>(new KeyKeeper(std::move(sources), std::move(*found)));
}

KeyKeeper::KeyKeeper(KeySources sources, FoundKeys found)
    : sources_(std::move(sources)),
      current_(std::make_shared<const FoundKeys>(std::move(found))),
      schedule_(current_->expires, {}) {
  sources_.stop = &stop_;
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "hr-credentials");
    run();
  });
}

KeyKeeper::KeysPtr KeyKeeper::current() const {
  MutexLock lock(mutex_);
  return current_;
}

void KeyKeeper::renew(const KeysPtr& refused, std::function<void()> done) {
  {
    MutexLock lock(mutex_);
    if (!closed_) {
      waiting_.push_back({refused, std::move(done)});
      changed_.notify_one();
      return;
    }
  }
  done();
}

void KeyKeeper::join() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_one();
  }
  stop_.set();
  if (thread_.joinable()) thread_.join();
}

void KeyKeeper::run() {
  MutexLock lock(mutex_);
  while (!closed_) {
    const bool is_asked = std::any_of(waiting_.begin(), waiting_.end(), [current = current_](const Waiting& waiting) {
      return waiting.refused == current;
    });
    const auto now = std::chrono::steady_clock::now();
    if ((is_asked && schedule_.may_look(now)) || now >= schedule_.next_look()) {
      lock.unlock();
      std::optional<FoundKeys> fresh = find_again();
      lock.lock();
      take(std::move(fresh));
    }
    std::vector<Waiting> served = std::exchange(waiting_, {});
    lock.unlock();
    for (Waiting& waiting : served) waiting.done();
    lock.lock();
    if (waiting_.empty() && !closed_) changed_.wait_until(lock, schedule_.next_look());
  }
  std::vector<Waiting> left = std::exchange(waiting_, {});
  lock.unlock();
  for (Waiting& waiting : left) waiting.done();
}

std::optional<FoundKeys> KeyKeeper::find_again() const {
  io::Result<std::optional<FoundKeys>> found = find_keys(sources_);
  if (found && *found) return std::move(**found);
  if (stop_.is_set()) return std::nullopt;
  io::log_warning("access keys could not be renewed: {}",
                  found ? std::string("no source has them any more") : found.error().message());
  return std::nullopt;
}

void KeyKeeper::take(std::optional<FoundKeys> fresh) {
  const KeySchedule::Now now;
  if (!fresh) return schedule_.on_none(now);
  const auto expires = fresh->expires;  // the same keys may have got a later end
  if (!are_same(*fresh, *current_)) current_ = std::make_shared<const FoundKeys>(std::move(*fresh));
  if (schedule_.on_found(expires, now)) {
    io::log_warning("access keys: those of {} have ended by the clock of this machine; they are used all the same",
                    current_->source);
  }
}

}  // namespace headrace::cache
