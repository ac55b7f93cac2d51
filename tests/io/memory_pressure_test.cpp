// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/memory_pressure.h"

#include <string>

#include <doctest/doctest.h>

#include "support/temp_dir.h"

namespace memory_pressure_test {

using headrace::io::available_memory_bytes;
using headrace::io::MemoryPressure;
using headrace::io::MemoryPressurePaths;
using headrace::test::TempDir;

namespace {

std::string counted(int total_us) {
  return "some avg10=0.00 avg60=0.00 avg300=0.00 total=" + std::to_string(total_us) +
         "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=99999999\n";
}

struct Fixture {
  Fixture() {
    dir.write("self", "4:cpu:/x\n0::/job/mine\n");
    dir.write("meminfo", "MemTotal:       32000000 kB\nMemFree: 5 kB\nMemAvailable:   18000000 kB\n");
    dir.write("machine", counted(5'000'000));
  }
  [[nodiscard]] MemoryPressurePaths paths() const {
    return {.groups = {dir.path(), dir.path() / "self"},
            .machine = dir.path() / "machine",
            .memory = dir.path() / "meminfo"};
  }
  TempDir dir;
};

}  // namespace

TEST_CASE("who waits for memory is told apart: our own group, or somebody on the machine") {
  const Fixture fixture;
  fixture.dir.write("job/mine/cgroup.type", "domain\n");
  fixture.dir.write("job/mine/memory.pressure", counted(1000));
  fixture.dir.write("job/memory.pressure", counted(1000));
  MemoryPressure pressure(fixture.paths());
  CHECK(pressure.can_tell());
  constexpr std::uint64_t kAvailable = std::uint64_t{18'000'000} << 10;
  CHECK(pressure.look() == MemoryPressure::Signs{false, false, kAvailable});

  fixture.dir.write("machine", counted(5'300'000));
  fixture.dir.write("job/memory.pressure", counted(900'000));
  CHECK(pressure.look() == MemoryPressure::Signs{false, true, kAvailable});
  CHECK(pressure.look() == MemoryPressure::Signs{false, true, kAvailable});  // within the last two seconds
  CHECK(pressure.look() == MemoryPressure::Signs{false, false, kAvailable});

  fixture.dir.write("job/mine/memory.pressure", counted(150'000));
  CHECK_FALSE(pressure.look().group_waits);
  fixture.dir.write("job/mine/memory.pressure", counted(250'000));
  CHECK(pressure.look().group_waits);
}

TEST_CASE("the root of the control groups counts for all the machine, and so for none") {
  const Fixture fixture;
  fixture.dir.write("memory.pressure", counted(0));
  MemoryPressure pressure(fixture.paths());
  fixture.dir.write("memory.pressure", counted(9'000'000));
  CHECK_FALSE(pressure.look().group_waits);
}

TEST_CASE("a kernel that does not count waits is known as such") {
  const TempDir empty;
  MemoryPressure pressure({.groups = {empty.path(), empty.path() / "self"},
                           .machine = empty.path() / "machine",
                           .memory = empty.path() / "meminfo"});
  CHECK_FALSE(pressure.can_tell());
  CHECK(pressure.look() == MemoryPressure::Signs{});
  CHECK_FALSE(available_memory_bytes(empty.path() / "meminfo"));
}

TEST_CASE("this machine says how much memory it could give away") {
  CHECK(available_memory_bytes().value_or(0) > 0);
}

}  // namespace memory_pressure_test
