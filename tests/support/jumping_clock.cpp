// SPDX-License-Identifier: Apache-2.0
// A wall clock that jumps, for one program: preload this library, and the seconds in the file that JUMPING_CLOCK names
// are added to what the program is told. The machine's clock, the monotonic clocks and file times stay as they are, as
// when an administrator or NTP sets the clock.
//
//   JUMPING_CLOCK=/tmp/offset LD_PRELOAD=build/dev/tests/support/jumping_clock.so headrace mount ...
//   printf 86400 > /tmp/offset        (a missing or empty file: no offset)
#include <cerrno>
#include <cstdlib>
#include <ctime>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

// Read at each call: tests change it while the program runs. Neither allocates nor locks, as a signal handler may ask
// for the time.
long offset_seconds() {
  const int errno_before = errno;  // no call here is the program's
  const char* path = ::getenv("JUMPING_CLOCK");
  const int file = path != nullptr ? ::open(path, O_RDONLY | O_CLOEXEC) : -1;
  char text[32] = {};
  const ssize_t length = ::read(file, text, sizeof text - 1);
  if (file >= 0) ::close(file);
  errno = errno_before;
  return length > 0 ? std::strtol(text, nullptr, 10) : 0;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  const bool wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (result == 0 && wall) time->tv_sec += offset_seconds();
  return result;
}

extern "C" int gettimeofday(timeval* __restrict time, void* __restrict /*zone*/) noexcept {
  timespec now = {};
  const int result = ::clock_gettime(CLOCK_REALTIME, &now);
  if (result == 0) *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return result;
}

extern "C" time_t time(time_t* result) noexcept {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}
