// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/page_cache_account.h"

#include <vector>

#include <doctest/doctest.h>

#include "sized_catalog.h"

namespace headrace::fuse::page_cache_account_test {
namespace {

using cache::SampleIndex;
using test::SizedCatalog;

constexpr std::size_t kPage = 4096;
constexpr PageRange kFromStart{0, kPage};

// All that is evicted for `bytes` more.
std::vector<SampleIndex> victims(PageCacheAccount& account, std::uint64_t bytes = 0) {
  std::vector<SampleIndex> gone;
  while (const auto victim = account.next_victim(bytes)) gone.push_back(*victim);
  return gone;
}

TEST_CASE("a sample counts in whole pages, and what does not fit is not placed") {
  const SizedCatalog catalog({1, kPage, kPage + 1, 0});
  std::vector<SamplePages> pages(4);
  PageCacheAccount account(*catalog, pages);
  CHECK(account.total_bytes() == 4 * kPage);
  CHECK(account.bytes_of(2) == 2 * kPage);
  account.set_budget(2 * kPage);
  CHECK(account.place(2));
  CHECK(account.place(2));  // again: it is held already
  CHECK_FALSE(account.place(0));
  CHECK(account.place(3));
  CHECK(account.held_bytes() == 2 * kPage);
  CHECK(account.held_samples() == 2);
}

TEST_CASE("what was released first is evicted first, and only when its room is needed") {
  const SizedCatalog catalog(std::vector<std::size_t>(6, kPage));
  std::vector<SamplePages> pages(6);
  PageCacheAccount account(*catalog, pages);
  account.set_budget(4 * kPage);
  for (SampleIndex sample = 0; sample < 4; ++sample) REQUIRE(account.place(sample));
  for (const SampleIndex sample : {2U, 0U, 1U}) account.release(sample);
  account.want(0);
  CHECK(account.wanted_bytes() == 2 * kPage);
  CHECK(victims(account).empty());
  CHECK(victims(account, kPage) == std::vector<SampleIndex>{2});
  CHECK(account.take_stale(2));
  CHECK_FALSE(account.take_stale(2));
  REQUIRE(account.place(4));
  account.set_budget(0);
  CHECK(victims(account) == std::vector<SampleIndex>{1});  // the rest is wanted
  CHECK(account.evicted_samples() == 2);
  account.release_all();
  CHECK(account.must_evict());
  CHECK(victims(account).size() == 3);
  CHECK(account.held_bytes() == 0);
}

TEST_CASE("a sample that was released on its way may go once it is held") {
  const SizedCatalog catalog({kPage});
  std::vector<SamplePages> pages(1);
  PageCacheAccount account(*catalog, pages);
  account.set_budget(kPage);
  account.release(0);
  REQUIRE(account.place(0));
  CHECK(account.wanted_bytes() == 0);
  CHECK(victims(account, kPage) == std::vector<SampleIndex>{0});
}

TEST_CASE("what READs bring in counts, the oldest of it goes first, and the last 32 stay") {
  constexpr unsigned kCount = 100;
  const SizedCatalog catalog(std::vector<std::size_t>(kCount, kPage));
  std::vector<SamplePages> pages(kCount);
  PageCacheAccount account(*catalog, pages);
  account.set_budget(40 * kPage);
  REQUIRE(account.place(99));
  for (SampleIndex sample = 0; sample < 80; ++sample) {
    account.on_read_in(sample, kFromStart);
    account.on_read_in(sample, kFromStart);  // more READs for the same file
  }
  CHECK(account.read_in_bytes() == 80 * kPage);
  const std::vector<SampleIndex> gone = victims(account);
  REQUIRE(gone.size() == 41);
  for (SampleIndex i = 0; i < gone.size(); ++i) CHECK(gone[i] == i);
  account.set_budget(0);
  CHECK(victims(account).size() == 7);
  CHECK(account.read_in_bytes() == 32 * kPage);
  CHECK(account.is_held(99));
}

TEST_CASE("of a large file what READs bring in counts by page, and the oldest part of it goes first") {
  constexpr std::uint64_t kMiB = 1 << 20;
  const SizedCatalog catalog({100 * kMiB, kPage});
  std::vector<SamplePages> pages(2);
  PageCacheAccount account(*catalog, pages);
  account.set_budget(50 * 2 * kPage);
  for (std::uint64_t i = 0; i < 60; ++i) account.on_read_in(0, {i * kMiB + 5000, 4000});  // on two pages
  account.on_read_in(0, {5000, 100});                                                     // known already
  CHECK(account.read_in_bytes() == 60 * 2 * kPage);
  CHECK(pages[0].read_in);
  CHECK(account.must_evict());
  for (std::uint64_t i = 1; i <= 10; ++i) {  // the first was read again since
    const auto gone = account.next_range_victim(0);
    REQUIRE(gone.has_value());
    CHECK(gone->sample == 0);
    CHECK(gone->range.offset == i * kMiB);
    CHECK(gone->range.length == kMiB);
  }
  CHECK_FALSE(account.next_range_victim(0).has_value());
  CHECK(account.take_stale(0));
  CHECK(victims(account).empty());
  account.set_budget(200 * kMiB);
  REQUIRE(account.place(0));  // pushed whole: nothing of it is read in any more
  CHECK(account.read_in_bytes() == 0);
  CHECK(account.held_bytes() == 100 * kMiB);
}

TEST_CASE("the last 32 parts of large files that were read stay on top of the budget") {
  constexpr std::uint64_t kMiB = 1 << 20;
  const SizedCatalog catalog({100 * kMiB});
  std::vector<SamplePages> pages(1);
  PageCacheAccount account(*catalog, pages);
  for (std::uint64_t i = 0; i < 40; ++i) account.on_read_in(0, {i * kMiB, kPage});
  int gone = 0;
  while (account.next_range_victim(0)) ++gone;
  CHECK(gone == 8);
  CHECK(account.read_in_bytes() == 32 * kPage);
  account.drop(0);
  CHECK(account.read_in_bytes() == 0);
  CHECK_FALSE(pages[0].read_in);
}

TEST_CASE("a file of 6 GiB counts in full, and may be pushed") {
  constexpr std::uint64_t kBytes = 6ULL << 30;
  const SizedCatalog catalog({kBytes});
  std::vector<SamplePages> pages(1);
  PageCacheAccount account(*catalog, pages);
  CHECK(account.total_bytes() == kBytes);
  CHECK(account.can_be_pushed(0));
  account.set_budget(kBytes - kPage);
  CHECK_FALSE(account.place(0));
  account.set_budget(kBytes);
  CHECK(account.place(0));
  CHECK(account.held_bytes() == kBytes);
}

TEST_CASE("an account goes on with what another process left, none of it released") {
  const SizedCatalog catalog(std::vector<std::size_t>(3, kPage));
  std::vector<SamplePages> pages(3);
  pages[0] = {.held = true, .released = true};
  pages[1] = {.read_in = true};
  PageCacheAccount account(*catalog, pages);
  CHECK(account.held_bytes() == kPage);
  CHECK(account.wanted_bytes() == kPage);
  CHECK(account.read_in_bytes() == kPage);
}

TEST_CASE("of a large file nobody knows which part another process left, so all of it counts") {
  constexpr std::uint64_t kBytes = 40 << 20;
  const SizedCatalog catalog({kBytes});
  std::vector<SamplePages> pages(1);
  pages[0] = {.read_in = true};
  PageCacheAccount account(*catalog, pages);
  CHECK(account.read_in_bytes() == kBytes);
}

}  // namespace
}  // namespace headrace::fuse::page_cache_account_test
