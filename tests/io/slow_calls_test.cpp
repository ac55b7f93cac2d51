// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/slow_calls.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

namespace slow_calls_test {
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

TEST_CASE("what a slow call returns is waited for, but not longer than one likes") {
  const auto answer = std::make_shared<std::promise<void>>();
  SlowCalls slow("hr-slow");
  for (int i = 0; i < 3; ++i) CHECK(slow.within(kLimit, [i] { return i; }) == i);
  const auto hang = [waits = answer->get_future().share()] {
    waits.wait();
    return 1;
  };
  CHECK_FALSE(slow.within(milliseconds(10), hang).has_value());
  std::atomic<int> begun = 0;
  CHECK_FALSE(slow.within(kLimit, [&begun] { return ++begun; }).has_value());  // at once, while that one hangs
  answer->set_value();
  slow.stop(kLimit);
  CHECK_FALSE(slow.within(kLimit, [&begun] { return ++begun; }).has_value());
  CHECK(begun == 0);
}

TEST_CASE("who waits for a slow call is let go when these stop") {
  const auto answer = std::make_shared<std::promise<void>>();
  std::promise<void> begins;
  SlowCalls slow("hr-slow");
  auto waits = std::async(std::launch::async, [&slow, &begins, answer] {
    return slow.within(kLimit * 10, [&begins, answer] {
      begins.set_value();
      answer->get_future().wait();
      return 1;
    });
  });
  begins.get_future().wait();
  slow.stop(milliseconds(0));
  CHECK(waits.wait_for(kLimit) == std::future_status::ready);
  CHECK_FALSE(waits.get().has_value());
  answer->set_value();
}

TEST_CASE("a slow call never runs on the thread that would wait for it, also while these stop") {
  for (int round = 0; round < 500; ++round) {
    SlowCalls slow("hr-slow");
    std::atomic<bool> asks = false;
    std::thread waits([&] {
      const std::thread::id here = std::this_thread::get_id();
      asks = true;
      const auto ran_elsewhere = slow.within(kLimit, [here] { return std::this_thread::get_id() != here; });
      CHECK(ran_elsewhere.value_or(true));
    });
    while (!asks) std::this_thread::yield();
    slow.stop(kLimit);
    waits.join();
  }
}

}  // namespace

}  // namespace slow_calls_test
