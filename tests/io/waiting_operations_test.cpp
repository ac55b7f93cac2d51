// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/internal/waiting_operations.h"

#include <array>
#include <atomic>
#include <string>

#include <doctest/doctest.h>

namespace headrace::io::internal::waiting_operations_test {
namespace {

// Named by their offsets.
struct Waiting {
  WaitingOperations waiting;
  std::array<Operation, 64> operations;
  std::size_t count = 0;

  void push(const std::atomic<bool>* wanted) {
    Operation& operation = operations[count];
    operation.offset_bytes = count++;
    operation.wanted = wanted;
    waiting.push(operation);
  }
  std::uint64_t pop() { return waiting.pop().offset_bytes; }
};

TEST_CASE("waiting operations: what somebody waits for comes first, each kind in the order of its arrival") {
  Waiting three;
  const std::atomic<bool> waits = true;
  three.push(&kNobodyWaits);
  three.push(&kNobodyWaits);
  three.push(nullptr);
  three.push(&waits);
  CHECK(three.pop() == 2);
  CHECK(three.pop() == 3);
  CHECK(three.pop() == 0);
  CHECK(three.pop() == 1);
  CHECK(three.waiting.empty());
}

TEST_CASE("waiting operations: a read ahead that somebody waits for by now comes before the others") {
  Waiting reads;
  std::atomic<bool> wanted = false;
  reads.push(&kNobodyWaits);
  reads.push(&wanted);
  reads.push(&kNobodyWaits);
  wanted = true;
  CHECK(reads.waiting.size() == 3);
  reads.waiting.hurry();
  CHECK(reads.waiting.size() == 3);
  CHECK(reads.pop() == 1);
  CHECK(reads.pop() == 0);
  CHECK(reads.pop() == 2);
}

TEST_CASE("waiting operations: reads ahead fill the depth, what somebody waits for a quarter more") {
  Waiting reads;
  CHECK_FALSE(reads.waiting.may_start(0, 8));
  reads.push(&kNobodyWaits);
  CHECK(reads.waiting.may_start(7, 8));
  CHECK_FALSE(reads.waiting.may_start(8, 8));
  reads.push(nullptr);
  CHECK(reads.waiting.may_start(9, 8));
  CHECK_FALSE(reads.waiting.may_start(10, 8));
  CHECK(WaitingOperations::places(1) == 2);
}

TEST_CASE("waiting operations: what nobody waits for has one start in sixteen") {
  Waiting reads;
  reads.push(&kNobodyWaits);
  for (int i = 0; i < 40; ++i) reads.push(nullptr);
  unsigned before = 0;
  while (reads.pop() != 0) ++before;
  CHECK(before == 15);
}

}  // namespace
}  // namespace headrace::io::internal::waiting_operations_test
