// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "headrace/cli/doctor/memory.h"

#include "support/temp_dir.h"

namespace doctor_memory_test {

using headrace::cli::examine_budget;
using headrace::cli::examine_huge_pages;
using headrace::cli::examine_idle_reclaim;
using headrace::cli::Finding;
using headrace::cli::Health;
using headrace::test::TempDir;

TEST_CASE("a budget that has shrunk is told with its reason") {
  CHECK(examine_budget(64 << 20, 64 << 20, "").health == Health::kGood);
  CHECK(examine_budget(0, 0, "").health == Health::kInfo);
  const Finding shrunk = examine_budget(64 << 20, 40 << 20, "somebody waits");
  CHECK(shrunk.health == Health::kLimit);
  CHECK(shrunk.text.find(": somebody waits") != std::string::npos);
}

TEST_CASE("page cache that DAMON takes when idle is told, with the file that ends it") {
  const TempDir sys;
  CHECK(examine_idle_reclaim(sys.path()).health == Health::kGood);
  const auto enabled = sys.write("module/damon_reclaim/parameters/enabled", "N\n");
  CHECK(examine_idle_reclaim(sys.path()).health == Health::kGood);

  const auto state = sys.write("kernel/mm/damon/admin/kdamonds/0/state", "on\n");
  const Finding monitor = examine_idle_reclaim(sys.path());
  CHECK(monitor.health == Health::kInfo);
  CHECK(monitor.remedy.find(state.string()) != std::string::npos);

  sys.write("module/damon_reclaim/parameters/enabled", "Y\n");
  const Finding reclaim = examine_idle_reclaim(sys.path());
  CHECK(reclaim.health == Health::kLimit);
  CHECK(reclaim.remedy.find("echo N > " + enabled.string()) != std::string::npos);
}

TEST_CASE("huge pages that are switched off are told, with what switches them on") {
  const TempDir sys;
  CHECK(examine_huge_pages(sys.path()).text == "not offered");
  sys.write("kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  CHECK(examine_huge_pages(sys.path()).remedy.empty());
  sys.write("kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  CHECK_FALSE(examine_huge_pages(sys.path()).remedy.empty());
}

}  // namespace doctor_memory_test
