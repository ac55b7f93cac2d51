// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/held_copies.h"

#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "sized_catalog.h"

namespace headrace::fuse::held_copies_test {
namespace {

using cache::SampleIndex;
using test::SizedCatalog;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kMiB = std::size_t{1} << 20;

// A payload that takes so many pages in the store's memory.
constexpr std::size_t pages(std::size_t count) {
  return count * kPage - 200;
}

TEST_CASE("copies are kept within the limit, and the largest goes when it falls") {
  const SizedCatalog catalog({pages(1), pages(3), pages(2)});
  HeldCopies copies(*catalog);
  CHECK(copies.bytes_of_all() == 6 * kPage);
  for (SampleIndex sample = 0; sample < 3; ++sample) CHECK(copies.add(sample, 6 * kPage));
  CHECK(copies.add(1, 0));  // it is there already
  CHECK(copies.bytes() == 6 * kPage);
  CHECK_FALSE(copies.next_to_drop(6 * kPage));
  CHECK(copies.next_to_drop(3 * kPage) == 1);
  CHECK_FALSE(copies.next_to_drop(3 * kPage));
  CHECK(copies.samples() == 2);
}

TEST_CASE("a copy makes way for a smaller one, not for one of nearly its size") {
  const SizedCatalog catalog({pages(16), pages(15), pages(8)});
  HeldCopies copies(*catalog);
  constexpr std::uint64_t kLimit = 16 * kPage;
  REQUIRE(copies.add(0, kLimit));
  CHECK_FALSE(copies.add(1, kLimit));
  CHECK(copies.add(2, kLimit));
  CHECK(copies.next_to_drop(kLimit) == 0);
  CHECK(copies.contains(2));
}

TEST_CASE("a lost sample is fetched once, and not when its copy had to make way meanwhile") {
  const SizedCatalog catalog({pages(1), pages(2)});
  HeldCopies copies(*catalog);
  copies.add_lost(0, 3 * kPage);
  copies.add_lost(0, 3 * kPage);
  copies.add_lost(1, 3 * kPage);
  CHECK(copies.must_fetch());
  CHECK(copies.next_to_fetch() == 0);
  CHECK(copies.next_to_drop(kPage) == 1);
  CHECK_FALSE(copies.next_to_fetch());
  copies.drop(0);  // its fetch failed
  copies.add_lost(0, 3 * kPage);
  CHECK(copies.next_to_fetch() == 0);
}

TEST_CASE("of files that are fetched in pieces no copy is kept") {
  const SizedCatalog few(std::vector<std::size_t>(8, kMiB));
  CHECK(HeldCopies(*few).bytes_of_all() > 8 * kMiB);
  const SizedCatalog with_large({kMiB, 5 * kMiB});
  HeldCopies copies(*with_large);
  CHECK_FALSE(copies.add(1, 100 * kMiB));
  CHECK(copies.bytes_of_all() == std::numeric_limits<std::uint64_t>::max());
}

}  // namespace
}  // namespace headrace::fuse::held_copies_test
