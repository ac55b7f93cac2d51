// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/owner_watch.h"

#include <cerrno>
#include <utility>

#include <poll.h>
#include <pthread.h>

namespace headrace::cli {

OwnerWatch::OwnerWatch(int pidfd, std::function<void()> on_end)
    : thread_([this, pidfd, on_end = std::move(on_end)] {
        ::pthread_setname_np(::pthread_self(), "hr-owner");
        pollfd waited[] = {{pidfd, POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
        while (::poll(waited, 2, -1) < 0 && errno == EINTR) {
        }
        if (waited[1].revents == 0 && (waited[0].revents & POLLIN) != 0) on_end();
      }) {}

OwnerWatch::~OwnerWatch() {
  stop_.set();
  thread_.join();
}

}  // namespace headrace::cli
