// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/streams.h"

#include <cstdint>
#include <memory>
#include <random>

#include <doctest/doctest.h>

#include "headrace/cache/store/range_costs.h"

namespace streams_test {
namespace {

using headrace::cache::kChunkBytes;
using headrace::cache::RangeCosts;
using headrace::cache::Streams;

constexpr std::uint64_t kKiB = 1 << 10;
constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kGiB = 1 << 30;
constexpr std::uint64_t kRead = 128 * kKiB;

TEST_CASE("a reader that goes on is a stream once it has read a mebibyte, from the start of a file sooner") {
  Streams streams;
  for (std::uint64_t i = 0; i < 7; ++i) CHECK_FALSE(streams.note(1, 5 * kGiB + i * kRead, kRead));
  for (std::uint64_t i = 7; i < 100; ++i) REQUIRE(streams.note(1, 5 * kGiB + i * kRead, kRead));
  CHECK_FALSE(streams.note(2, 0, kRead));
  CHECK(streams.note(2, kRead, kRead));
  CHECK(streams.note(3, 0, 2 * kRead));  // the kernel's first window of a mount with wide read-ahead
}

TEST_CASE("READs that arrive out of their order are one stream") {
  Streams streams;
  bool in_stream = false;
  for (std::uint64_t i = 0; i < 8; ++i) in_stream = streams.note(1, kGiB + (i ^ 1) * kRead, kRead);
  CHECK(in_stream);
}

TEST_CASE("the readers of one file are streams each") {
  Streams streams;
  for (std::uint64_t i = 0; i < 7; ++i) {
    for (std::uint64_t reader = 0; reader < 16; ++reader) {
      REQUIRE_FALSE(streams.note(1, (reader + 1) * kGiB + i * kRead, kRead));
    }
  }
  for (std::uint64_t reader = 0; reader < 16; ++reader) {
    CHECK(streams.note(1, (reader + 1) * kGiB + 7 * kRead, kRead));
  }
}

TEST_CASE("reads at random places are no stream, nor are records that are read by page faults") {
  Streams streams;
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t length = 4096 * (1 + random() % 32);
    const std::uint64_t offset = random() % (kGiB / 4096) * 4096;
    REQUIRE_FALSE(streams.note(1, offset, length));
  }
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t offset = kMiB + random() % (kGiB / 4096) * 4096;
    for (std::uint64_t part = 0; part < 3; ++part) REQUIRE_FALSE(streams.note(2, offset + part * kRead, kRead));
  }
}

TEST_CASE("a chunk is the better buy once its ranges have cost as much") {
  const auto costs = std::make_unique<RangeCosts>();
  int reads = 1;
  while (!costs->note({1, 7}, 8 * kKiB)) ++reads;
  CHECK(reads == 58);  // of 72 KiB each, where the chunk is 4160
  CHECK_FALSE(costs->note({1, 7}, 8 * kKiB));
  CHECK(costs->note({1, 8}, 16 * kChunkBytes));
}

}  // namespace

}  // namespace streams_test
