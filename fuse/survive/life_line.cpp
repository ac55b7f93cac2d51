// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/survive/life_line.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <future>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "headrace/fuse/survive/own_descriptors.h"
#include "headrace/io/log.h"

namespace headrace::fuse {
namespace {

void hold_until_let_go(int held_fd, int end_fd, std::promise<io::Status> separated) {
  ::pthread_setname_np(::pthread_self(), "hr-life");
  std::array<int, 2> kept = {held_fd, end_fd};
  std::sort(kept.begin(), kept.end());
  separated.set_value(keep_only(kept));
  char byte = 0;
  while (::read(end_fd, &byte, 1) < 0 && errno == EINTR) continue;
}

}  // namespace

io::Result<LifeLine> LifeLine::open() {
  LifeLine line;
  std::array<int, 2> life = {-1, -1};
  std::array<int, 2> end = {-1, -1};
  if (::pipe2(life.data(), O_CLOEXEC) != 0) return io::system_error(errno, "pipe");
  line.watched_.reset(life[0]);
  line.held_.reset(life[1]);
  if (::pipe2(end.data(), O_CLOEXEC) != 0) return io::system_error(errno, "pipe");
  line.let_go_read_.reset(end[0]);
  line.let_go_write_.reset(end[1]);
  return line;
}

io::UniqueFd LifeLine::take_watching_end() {
  held_.reset();
  let_go_read_.reset();
  let_go_write_.reset();
  return std::move(watched_);
}

void LifeLine::hold() {
  watched_.reset();
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread takes no signals away from others
  std::promise<io::Status> separated;
  std::future<io::Status> separation = separated.get_future();
  thread_ = std::thread(hold_until_let_go, held_.get(), let_go_read_.get(), std::move(separated));
  const io::Status separate = separation.get();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (separate) return held_.reset();
  io::log_warning("a worker killed while it uses its own mount will not be noticed: {}", separate.error().message());
}

void LifeLine::let_go() {
  let_go_write_.reset();
  if (thread_.joinable()) thread_.join();
}

}  // namespace headrace::fuse
