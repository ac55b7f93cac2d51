// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/internal/queue.h"

#include <chrono>
#include <cstdint>
#include <ctime>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

namespace headrace::decode::queue_test {
namespace {

TEST_CASE("every item arrives once, with several producers and consumers and little room") {
  constexpr std::uint64_t kProducers = 3;
  constexpr std::uint64_t kItems = 20'000;
  BoundedQueue<std::uint64_t> queue(4);
  std::atomic<std::uint64_t> sum = 0;
  std::atomic<std::uint64_t> count = 0;
  std::vector<std::thread> consumers;
  for (int i = 0; i < 3; ++i) {
    consumers.emplace_back([&] {
      for (std::uint64_t item = 0; queue.pop(item); ++count) sum += item;
    });
  }
  std::vector<std::thread> producers;
  for (std::uint64_t p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (std::uint64_t i = 0; i < kItems; ++i) queue.push(p * kItems + i);
    });
  }
  for (std::thread& producer : producers) producer.join();
  queue.close();
  for (std::thread& consumer : consumers) consumer.join();
  constexpr std::uint64_t kAll = kProducers * kItems;
  CHECK(count == kAll);
  CHECK(sum == kAll * (kAll - 1) / 2);
  CHECK(queue.depth() == 0);
}

TEST_CASE("one consumer gets the items in order") {
  BoundedQueue<int> queue(100);
  for (int i = 0; i < 100; ++i) CHECK(queue.push(i));
  CHECK(queue.depth() == 100);
  for (int i = 0; i < 100; ++i) {
    int item = -1;
    REQUIRE(queue.pop(item));
    CHECK(item == i);
  }
}

TEST_CASE("closing wakes who waits, refuses what comes and hands out what is left") {
  BoundedQueue<int> full(1);
  REQUIRE(full.push(7));
  bool pushed = true;
  std::thread producer([&] { pushed = full.push(8); });
  BoundedQueue<int> empty(1);
  bool popped = true;
  std::thread consumer([&] {
    int item = 0;
    popped = empty.pop(item);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));  // so that both most likely sleep; right either way
  full.close();
  empty.close();
  producer.join();
  consumer.join();
  CHECK_FALSE(pushed);
  CHECK_FALSE(popped);
  CHECK_FALSE(full.push(9));
  int item = 0;
  CHECK(full.pop(item));
  CHECK(item == 7);
  CHECK_FALSE(full.pop(item));
}

TEST_CASE("an idle consumer sleeps") {
  BoundedQueue<int> queue(1);
  double cpu_seconds = 1;
  std::thread consumer([&] {
    int item = 0;
    CHECK_FALSE(queue.pop(item));
    timespec used = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    cpu_seconds = static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  queue.close();
  consumer.join();
  CHECK(cpu_seconds < 0.1);
}

}  // namespace
}  // namespace headrace::decode::queue_test
