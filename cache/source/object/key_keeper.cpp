// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/key_keeper.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <pthread.h>

#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

using io::MutexLock;
using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr std::chrono::minutes kRenewBefore{5};
constexpr seconds kTryAgainAfter{10};
constexpr seconds kLookMin{1};
constexpr std::chrono::minutes kPauseMax{5};  // a service that gives keys out is asked by every node
constexpr std::chrono::hours kNever{24 * 365};

// Keys that live for a few minutes only are renewed at half of their time.
Clock::time_point time_to_renew(const FoundKeys& found) {
  if (!found.expires) return Clock::now() + kNever;
  const auto left = *found.expires - std::chrono::system_clock::now();
  const auto wait = left > 2 * kRenewBefore ? left - kRenewBefore : left / 2;
  return Clock::now() + std::clamp<Clock::duration>(wait, kLookMin, kNever);
}

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
      next_look_(time_to_renew(*current_)) {
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
    const bool may_ask = Clock::now() - last_look_ >= kLookMin;
    if ((is_asked && may_ask) || Clock::now() >= next_look_) {
      lock.unlock();
      std::optional<FoundKeys> fresh = find_again();
      lock.lock();
      take(std::move(fresh));
    }
    std::vector<Waiting> served = std::exchange(waiting_, {});
    lock.unlock();
    for (Waiting& waiting : served) waiting.done();
    lock.lock();
    if (waiting_.empty() && !closed_) changed_.wait_until(lock, next_look_);
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
  last_look_ = Clock::now();
  next_look_ = last_look_ + kTryAgainAfter;
  if (!fresh) return;
  const bool is_over = fresh->expires && *fresh->expires <= std::chrono::system_clock::now();
  const Clock::time_point next = time_to_renew(*fresh);  // the same keys may have got a later end
  if (!are_same(*fresh, *current_)) current_ = std::make_shared<const FoundKeys>(std::move(*fresh));
  if (!is_over) {
    pause_ = kTryAgainAfter;
    // The same keys with the same end: their source has no newer ones yet, and is not asked without a pause.
    next_look_ = std::max(next, last_look_ + kLookMin);
    return;
  }
  // Their source has no others, or this machine's clock is fast. A store that refuses them has them looked for at once.
  if (pause_ == kTryAgainAfter) {
    io::log_warning("access keys: those of {} have ended by the clock of this machine; they are used all the same",
                    current_->source);
  }
  next_look_ = last_look_ + pause_;
  pause_ = std::min<seconds>(2 * pause_, kPauseMax);
}

}  // namespace headrace::cache
