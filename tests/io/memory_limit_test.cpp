// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/memory_limit.h"

#include <doctest/doctest.h>

#include "support/temp_dir.h"

namespace memory_limit_test {

using headrace::io::control_group_memory_limit;
using headrace::io::is_near_memory_limit;
using headrace::io::memory_limit_bytes;
using headrace::test::TempDir;

TEST_CASE("the least memory limit on the way up holds, in both versions of control groups") {
  const TempDir dir;
  const auto self = dir.write("self", "0::/a/b\n");
  CHECK_FALSE(control_group_memory_limit({dir.path(), self}));
  dir.write("a/memory.max", "3000000\n");
  dir.write("a/b/memory.max", "max\n");
  CHECK(control_group_memory_limit({dir.path(), self}) == 3'000'000);
  dir.write("a/b/memory.max", "2000000\n");
  CHECK(control_group_memory_limit({dir.path(), self}) == 2'000'000);

  const auto old_self = dir.write("old", "5:cpu:/x\n4:hugetlb,memory:/job\n");
  dir.write("memory/job/memory.limit_in_bytes", "9223372036854771712\n");  // what version 1 says for "none"
  CHECK_FALSE(control_group_memory_limit({dir.path(), old_self}));
  dir.write("memory/memory.limit_in_bytes", "1000000\n");
  CHECK(control_group_memory_limit({dir.path(), old_self}) == 1'000'000);
}

TEST_CASE("a container's memory limit is found at the root that it sees") {
  const TempDir dir;
  dir.write("memory.max", "4000000\n");
  CHECK(control_group_memory_limit({dir.path(), dir.write("self", "0::/not/mounted/here\n")}) == 4'000'000);
}

TEST_CASE("a control group is near its limit when it uses nearly all of it, in both versions") {
  const TempDir dir;
  const auto self = dir.write("self", "0::/a/b\n4:memory:/old\n");
  CHECK_FALSE(is_near_memory_limit({dir.path(), self}));
  dir.write("a/memory.max", "1000000\n");
  dir.write("a/memory.current", "500000\n");
  dir.write("a/b/memory.max", "max\n");
  dir.write("a/b/memory.current", "500000\n");
  CHECK_FALSE(is_near_memory_limit({dir.path(), self}));
  dir.write("a/memory.current", "990000\n");
  CHECK(is_near_memory_limit({dir.path(), self}));
  dir.write("a/memory.max", "max\n");
  dir.write("memory/old/memory.limit_in_bytes", "64000000\n");
  dir.write("memory/old/memory.usage_in_bytes", "63000000\n");
  CHECK(is_near_memory_limit({dir.path(), self}));
}

TEST_CASE("this machine has memory, no more of it than its control groups allow") {
  CHECK(memory_limit_bytes() > 0);
  CHECK(memory_limit_bytes() <= control_group_memory_limit().value_or(UINT64_MAX));
}

}  // namespace memory_limit_test
