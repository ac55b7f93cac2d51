// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/wake_event.h"

#include <thread>

#include <doctest/doctest.h>
#include <poll.h>

namespace wake_event_test {
namespace {

using headrace::io::WakeEvent;

bool is_readable(const WakeEvent& event, int wait_ms) {
  pollfd waited{event.fd(), POLLIN, 0};
  return ::poll(&waited, 1, wait_ms) == 1;
}

TEST_CASE("a wake-up stays until it is cleared, however often it was set") {
  const WakeEvent wake;
  REQUIRE(wake.valid());
  CHECK_FALSE(is_readable(wake, 0));
  wake.set();
  wake.set();
  CHECK(is_readable(wake, 0));
  CHECK(is_readable(wake, 0));
  wake.clear();
  CHECK_FALSE(is_readable(wake, 0));
  wake.clear();  // of nothing: returns at once
}

TEST_CASE("another thread's wake-up ends a wait") {
  const WakeEvent wake;
  std::thread other([&wake] { wake.set(); });
  CHECK(is_readable(wake, 20'000));
  other.join();
}

}  // namespace

}  // namespace wake_event_test
