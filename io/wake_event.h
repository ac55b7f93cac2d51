// SPDX-License-Identifier: Apache-2.0
// Wakes a thread that waits for descriptors: an eventfd.
//
//   WakeEvent wake;
//   if (!wake.valid()) return system_error(errno, "eventfd");
//   pollfd waited[] = {{socket, POLLIN, 0}, {wake.fd(), POLLIN, 0}};  // the thread that waits
//   wake.set();                                                       // any other: fd() is readable from now on
//   wake.clear();                                                     // whoever was woken, before it looks what for
//
// Thread-safety: every function from any thread; set() from a signal handler, too. Ownership: not copied, not moved.
#pragma once

#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

namespace headrace::io {

class WakeEvent {
 public:
  WakeEvent() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  // False where the process had no descriptor left: set() and clear() do nothing then.
  [[nodiscard]] bool valid() const { return fd_.valid(); }
  [[nodiscard]] int fd() const { return fd_.get(); }

  void set() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);  // full: it is readable anyway
  }
  void clear() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(fd_.get(), &count, sizeof count);  // empty: nobody set it
  }

 private:
  const UniqueFd fd_;
};

}  // namespace headrace::io
