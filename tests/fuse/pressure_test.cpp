// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/pressure.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "headrace/io/mutex.h"

#include "support/temp_dir.h"

namespace headrace::fuse::pressure_test {
namespace {

TEST_CASE("the budget falls by quarters to an eighth and comes back in sixteenths") {
  PressureBudget budget(1600);
  CHECK(budget.bytes() == 1600);
  CHECK_FALSE(budget.on_quiet());
  CHECK(budget.on_pressure());
  CHECK(budget.bytes() == 1200);
  for (int i = 0; i < 20; ++i) budget.on_pressure();
  CHECK(budget.bytes() == 200);
  CHECK_FALSE(budget.on_pressure());
  CHECK(budget.on_quiet());
  CHECK(budget.bytes() == 300);
  for (int i = 0; i < 20; ++i) budget.on_quiet();
  CHECK(budget.bytes() == 1600);
}

// A machine whose memory and whose waiting programs are files of the test.
struct Machine {
  explicit Machine(std::uint64_t available_kib) {
    dir.write("self", "0::/mine\n");
    dir.write("mine/cgroup.type", "domain\n");
    dir.write("meminfo", "MemAvailable: " + std::to_string(available_kib) + " kB\n");
    set_waited(0, 0);
  }
  // In seconds, since the machine was started.
  void set_waited(int group, int machine) const {
    dir.write("mine/memory.pressure", "some total=" + std::to_string(group * 1'000'000) + "\n");
    dir.write("machine", "some total=" + std::to_string(machine * 1'000'000) + "\n");
  }
  [[nodiscard]] io::MemoryPressurePaths paths() const {
    return {.groups = {dir.path(), dir.path() / "self"},
            .machine = dir.path() / "machine",
            .memory = dir.path() / "meminfo"};
  }
  headrace::test::TempDir dir;
};

constexpr std::uint64_t kFull = 1600 << 10;

// What a watch over `machine` reports.
class Reports {
 public:
  explicit Reports(const Machine& machine, bool is_losing = false, bool is_near_limit = false)
      : watch_(kFull, {.is_losing = [=] { return is_losing; },
                       .held_bytes = [] { return std::uint64_t{1000 << 10}; },
                       .on_change = [this](std::uint64_t bytes, std::string_view reason) { note(bytes, reason); },
                       .on_dropped = [this] { note_drop(); },
                       .is_near_limit =
                           [this, is_near_limit] {
                             note_look();
                             return is_near_limit;
                           },
                       .paths = machine.paths()}) {}

  // Blocks until the budget was changed, or pages were found dropped, or somebody was found to wait without either.
  void wait() {
    io::MutexLock lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (budget_ == 0 && dropped_ == 0 && looks_ < 2) {
      if (!changed_.wait_until(lock, deadline)) return;
    }
  }
  [[nodiscard]] std::uint64_t budget() {
    io::MutexLock lock(mutex_);
    return budget_;
  }
  [[nodiscard]] std::string reason() {
    io::MutexLock lock(mutex_);
    return reason_;
  }
  [[nodiscard]] unsigned dropped() {
    io::MutexLock lock(mutex_);
    return dropped_;
  }

 private:
  void note(std::uint64_t bytes, std::string_view reason) {
    io::MutexLock lock(mutex_);
    budget_ = bytes;
    reason_ = reason;
    changed_.notify_all();
  }
  void note_drop() {
    io::MutexLock lock(mutex_);
    ++dropped_;
    changed_.notify_all();
  }
  void note_look() {
    io::MutexLock lock(mutex_);
    ++looks_;
    changed_.notify_all();
  }

  io::Mutex mutex_;
  io::CondVar changed_;
  std::uint64_t budget_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::string reason_ HEADRACE_GUARDED_BY(mutex_);
  unsigned dropped_ HEADRACE_GUARDED_BY(mutex_) = 0;
  unsigned looks_ HEADRACE_GUARDED_BY(mutex_) = 0;
  PressureWatch watch_;  // last: its callbacks use the others
};

TEST_CASE("programs of our own group that wait shrink the budget, however much the machine has") {
  const Machine machine(20 << 20);
  Reports reports(machine);
  machine.set_waited(10, 10);
  reports.wait();
  CHECK(reports.budget() == kFull / 4 * 3);
  CHECK(reports.reason() == "programs of this control group wait for memory");
}

TEST_CASE("another group that meets its own limit does not shrink the budget while there is memory") {
  const Machine machine(20 << 20);
  Reports reports(machine);
  machine.set_waited(0, 10);
  reports.wait();
  CHECK(reports.budget() == 0);
}

TEST_CASE("programs that wait shrink the budget where little is left beside pushed samples") {
  const Machine machine(1000 + 399);
  Reports reports(machine);
  machine.set_waited(0, 10);
  reports.wait();
  CHECK(reports.budget() == kFull / 4 * 3);
  CHECK(reports.reason() == "programs wait for memory, and beside pushed samples the machine has 0 MiB left");
}

TEST_CASE("programs that wait shrink the budget where our own group is near its limit") {
  const Machine machine(20 << 20);
  Reports reports(machine, false, true);
  machine.set_waited(0, 10);
  reports.wait();
  CHECK(reports.reason() == "programs wait for memory, and this control group is near its limit");
}

TEST_CASE("dropped pages shrink the budget where the memory cgroup is full") {
  const Machine machine(20 << 20);
  Reports reports(machine, true, true);
  reports.wait();
  CHECK(reports.reason() == "the kernel drops pushed pages, and this control group is near its limit");
  CHECK(reports.dropped() == 0);
}

TEST_CASE("dropped pages do not shrink the budget where nobody is short of memory") {
  const Machine machine(20 << 20);
  Reports reports(machine, true);
  reports.wait();
  CHECK(reports.dropped() == 1);
  CHECK(reports.budget() == 0);
}

}  // namespace
}  // namespace headrace::fuse::pressure_test
