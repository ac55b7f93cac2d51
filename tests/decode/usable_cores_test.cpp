// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/usable_cores.h"

#include <doctest/doctest.h>

#include "headrace/decode/stage_report.h"

#include "support/temp_dir.h"

namespace headrace::decode::usable_cores_test {
namespace {

using test::TempDir;

TEST_CASE("the tightest CPU quota on the way up holds, in both versions of cgroups") {
  TempDir dir;
  const auto self = dir.write("self", "0::/a/b\n");
  CHECK_FALSE(cgroup_cpu_quota({dir.path(), self}));
  dir.write("a/cpu.max", "250000 100000\n");
  dir.write("a/b/cpu.max", "max 100000\n");
  CHECK(cgroup_cpu_quota({dir.path(), self}) == 2.5);
  dir.write("a/b/cpu.max", "50000 100000\n");
  CHECK(cgroup_cpu_quota({dir.path(), self}) == 0.5);

  const auto old_self = dir.write("old", "4:cpu,cpuacct:/job\n2:memory:/x\n");
  CHECK_FALSE(cgroup_cpu_quota({dir.path(), old_self}));
  dir.write("cpu/job/cpu.cfs_quota_us", "-1\n");
  dir.write("cpu/job/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(cgroup_cpu_quota({dir.path(), old_self}));
  dir.write("cpu/job/cpu.cfs_quota_us", "150000\n");
  CHECK(cgroup_cpu_quota({dir.path(), old_self}) == 1.5);
}

TEST_CASE("a container's quota is found at the root that it sees") {
  TempDir dir;
  dir.write("cpu.max", "100000 100000\n");
  CHECK(cgroup_cpu_quota({dir.path(), dir.write("self", "0::/not/mounted/here\n")}) == 1.0);
}

TEST_CASE("there is always a core to use") {
  CHECK(usable_cores() >= 1);
  CHECK(usable_cores() <= allowed_cpus().size());
}

TEST_CASE("the stage report names who holds the others up") {
  StageReport report = {.elapsed_seconds = 10, .threads = 2, .samples = 100};
  report.deliver_seconds = 0.5;
  CHECK(bottleneck_of(report) == Bottleneck::kConsumer);
  report.deliver_seconds = 9;
  report.held_back_seconds = 8;
  report.read_seconds = 1;
  CHECK(bottleneck_of(report) == Bottleneck::kDecode);
  report.read_seconds = 9;
  report.source_fraction = 0.9;
  CHECK(bottleneck_of(report) == Bottleneck::kSource);
  report.source_fraction = 0.1;
  CHECK(bottleneck_of(report) == Bottleneck::kCache);
  CHECK(format(report).find("\ncache-bound: ") != std::string::npos);
}

}  // namespace
}  // namespace headrace::decode::usable_cores_test
