// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/retained.h"

#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "sized_catalog.h"

namespace headrace::fuse {
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
  Retained retained(*catalog);
  CHECK(retained.bytes_of_all() == 6 * kPage);
  for (SampleIndex sample = 0; sample < 3; ++sample) CHECK(retained.add(sample, 6 * kPage));
  CHECK(retained.add(1, 0));  // it is there already
  CHECK(retained.bytes() == 6 * kPage);
  CHECK_FALSE(retained.next_to_drop(6 * kPage));
  CHECK(retained.next_to_drop(3 * kPage) == 1);
  CHECK_FALSE(retained.next_to_drop(3 * kPage));
  CHECK(retained.samples() == 2);
}

TEST_CASE("a copy makes way for a smaller one, not for one of nearly its size") {
  const SizedCatalog catalog({pages(16), pages(15), pages(8)});
  Retained retained(*catalog);
  constexpr std::uint64_t kLimit = 16 * kPage;
  REQUIRE(retained.add(0, kLimit));
  CHECK_FALSE(retained.add(1, kLimit));
  CHECK(retained.add(2, kLimit));
  CHECK(retained.next_to_drop(kLimit) == 0);
  CHECK(retained.contains(2));
}

TEST_CASE("a lost sample is fetched once, and not when its copy had to make way meanwhile") {
  const SizedCatalog catalog({pages(1), pages(2)});
  Retained retained(*catalog);
  retained.add_lost(0, 3 * kPage);
  retained.add_lost(0, 3 * kPage);
  retained.add_lost(1, 3 * kPage);
  CHECK(retained.must_fetch());
  CHECK(retained.next_to_fetch() == 0);
  CHECK(retained.next_to_drop(kPage) == 1);
  CHECK_FALSE(retained.next_to_fetch());
  retained.drop(0);  // its fetch failed
  retained.add_lost(0, 3 * kPage);
  CHECK(retained.next_to_fetch() == 0);
}

TEST_CASE("of files that are fetched in pieces no copy is kept") {
  const SizedCatalog few(std::vector<std::size_t>(8, kMiB));
  CHECK(Retained(*few).bytes_of_all() > 8 * kMiB);
  const SizedCatalog with_large({kMiB, 5 * kMiB});
  Retained retained(*with_large);
  CHECK_FALSE(retained.add(1, 100 * kMiB));
  CHECK(retained.bytes_of_all() == std::numeric_limits<std::uint64_t>::max());
}

}  // namespace
}  // namespace headrace::fuse
