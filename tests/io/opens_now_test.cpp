// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/internal/opens_now.h"

#include <doctest/doctest.h>

namespace headrace::io::opens_now_test {
namespace {

using internal::OpensNow;
using std::chrono::microseconds;

TEST_CASE("files are opened at once while little is in flight") {
  OpensNow opens_now;
  for (int i = 0; i < 1000; ++i) {
    CHECK(opens_now.allowed(1));
    opens_now.on_opened(microseconds(100));
  }
  CHECK_FALSE(opens_now.allowed(16));
  CHECK(opens_now.allowed(1));
}

TEST_CASE("an open that waited leaves the next ones to the kernel's workers, for a while") {
  OpensNow opens_now;
  REQUIRE(opens_now.allowed(1));
  opens_now.on_opened(microseconds(10'000));
  unsigned left_to_workers = 0;
  while (!opens_now.allowed(1)) ++left_to_workers;
  CHECK(left_to_workers >= 100);
  CHECK(left_to_workers <= 1000);
  CHECK(opens_now.allowed(1));
}

}  // namespace
}  // namespace headrace::io::opens_now_test
