// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/slow_calls.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

namespace {

using headrace::io::SlowCalls;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLimit{60};

TEST_CASE("slow calls run in order, and what follows each of them runs after it") {
  std::vector<int> steps;
  SlowCalls slow("hr-slow");
  for (int i = 0; i < 3; ++i) {
    slow.run([&steps, i] { steps.push_back(2 * i); }, [&steps, i] { steps.push_back(2 * i + 1); });
  }
  slow.stop(kLimit);
  CHECK(steps == std::vector<int>{0, 1, 2, 3, 4, 5});
  slow.run([&steps] { steps.push_back(6); }, [&steps] { steps.push_back(7); });  // by the caller from now on
  CHECK(steps.back() == 7);
}

TEST_CASE("a call that hangs holds up nobody, and what follows has run when slow calls stop") {
  const auto answer = std::make_shared<std::promise<void>>();
  const auto ends = std::make_shared<std::promise<void>>();
  std::promise<void> begins;
  int followed = 0;
  {
    SlowCalls slow("hr-slow");
    slow.run(
        [answer, &begins] {
          begins.set_value();
          answer->get_future().wait();
        },
        [&followed] { ++followed; });
    slow.run([ends] { ends->set_value(); }, [&followed] { ++followed; });
    REQUIRE(begins.get_future().wait_for(kLimit) == std::future_status::ready);
    CHECK(followed == 0);
    slow.stop(milliseconds(0));
    CHECK(followed == 2);
  }
  // The thread is left alone with what it owns, and ends when the server answers.
  auto ended = ends->get_future();
  CHECK(ended.wait_for(milliseconds(0)) == std::future_status::timeout);
  answer->set_value();
  CHECK(ended.wait_for(kLimit) == std::future_status::ready);
  CHECK(followed == 2);
}

}  // namespace
