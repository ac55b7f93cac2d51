// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/opens/follower.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <poll.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <unistd.h>

namespace headrace::fuse {
using cache::EntryId;
using io::MutexLock;
using io::Result;
using io::Status;

namespace {

// 64 KiB: some 1 500 events a read, so that the queue of 16 384 events is emptied faster than loaders fill it.
constexpr std::size_t kEventBufferBytes = std::size_t{64} * 1024;
// Events gather for so long before they are read: a thread woken by each open takes the reader's core, which more than
// halves its rate on two cores. At 100 000 opens/s 200 events gather, and the plan looks thousands of samples ahead.
constexpr int kGatherMs = 2;

}  // namespace

Follower::Follower(const cache::Catalog& catalog, FollowerCallbacks callbacks)
    : catalog_(catalog), callbacks_(std::move(callbacks)) {}

Result<std::unique_ptr<Follower>> Follower::open(const cache::Catalog& catalog, FollowerCallbacks callbacks) {
  std::unique_ptr<Follower> follower(new Follower(catalog, std::move(callbacks)));
  follower->inotify_fd_.reset(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!follower->inotify_fd_.valid()) {
    return io::system_error(errno, errno == EMFILE ? "inotify: all of fs.inotify.max_user_instances, or of the files "
                                                     "that this process may open, are in use"
                                                   : "inotify");
  }
  if (!follower->stop_.valid()) return io::system_error(errno, "eventfd");
  follower->thread_ = std::thread([self = follower.get()] {
    ::pthread_setname_np(::pthread_self(), "hr-follow");
    self->run();
  });
  return follower;
}

Follower::~Follower() {
  if (thread_.joinable()) {
    stop_.set();
    thread_.join();
  }
}

Status Follower::watch(EntryId directory, const std::filesystem::path& path) {
  // The lock is held across the call so that no event of the new watch is looked up before its directory is known.
  MutexLock lock(mutex_);
  const int watch = ::inotify_add_watch(inotify_fd_.get(), path.c_str(), IN_OPEN | IN_ONLYDIR | IN_DONT_FOLLOW);
  if (watch < 0) return io::system_error(errno, "inotify watch on " + path.string());
  const auto index = static_cast<std::size_t>(watch);
  if (directories_.size() <= index) directories_.resize(index + 1, cache::kNoEntry);
  directories_[index] = directory;
  return {};
}

void Follower::run() {
  std::vector<char> buffer(kEventBufferBytes);
  std::array<pollfd, 2> waited = {{{inotify_fd_.get(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}}};
  while (true) {
    if (::poll(waited.data(), waited.size(), -1) < 0 && errno != EINTR) return;
    if (waited[1].revents != 0) return;
    if (waited[0].revents == 0) continue;
    if (::poll(&waited[1], 1, kGatherMs) > 0) return;
    read_events(buffer);
  }
}

void Follower::read_events(std::span<char> buffer) {
  const ssize_t count = ::read(inotify_fd_.get(), buffer.data(), buffer.size());
  if (count <= 0) return;
  take(buffer.first(static_cast<std::size_t>(count)));
  if (!opened_.empty()) callbacks_.on_opens(opened_);
  opened_.clear();
}

void Follower::take(std::span<const char> events) {
  MutexLock lock(mutex_);
  while (events.size() >= sizeof(inotify_event)) {
    inotify_event event;  // NOLINT: copied, since names in between leave events unaligned for the compiler
    std::memcpy(&event, events.data(), sizeof(event));
    const std::string_view name(events.data() + sizeof(event));  // padded with zero bytes
    events = events.subspan(sizeof(event) + event.len);
    if ((event.mask & IN_Q_OVERFLOW) != 0) callbacks_.on_overflow();
    const auto index = static_cast<std::size_t>(event.wd);
    if ((event.mask & IN_OPEN) == 0 || (event.mask & IN_ISDIR) != 0 || event.len == 0) continue;
    if (index >= directories_.size() || directories_[index] == cache::kNoEntry) continue;
    const auto entry = catalog_.find(directories_[index], name);
    if (!entry) continue;
    if (const auto sample = catalog_.sample_of(*entry)) opened_.push_back(*sample);
  }
}

}  // namespace headrace::fuse
