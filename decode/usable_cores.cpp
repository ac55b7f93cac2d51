// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/usable_cores.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include <sched.h>

namespace headrace::decode {
namespace {

namespace fs = std::filesystem;

// Version 2: one file, "QUOTA PERIOD" or "max PERIOD" in microseconds.
std::optional<double> quota_of_v2(const fs::path& folder) {
  std::ifstream file(folder / "cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return std::nullopt;
  return std::stod(quota) / period;
}

// Version 1: two files; a quota of -1 means none.
std::optional<double> quota_of_v1(const fs::path& folder) {
  std::ifstream quota_file(folder / "cpu.cfs_quota_us");
  std::ifstream period_file(folder / "cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

std::optional<double> tighter(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

}  // namespace

std::optional<double> cgroup_cpu_quota(const io::ControlGroupPaths& paths) {
  std::optional<double> quota;
  for (const io::ControlGroup& group : io::control_groups("cpu", paths)) {
    quota = tighter(quota, group.version == 2 ? quota_of_v2(group.folder) : quota_of_v1(group.folder));
  }
  return quota;
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;  // fails on more than 1024 CPUs
  const int count = known ? CPU_SETSIZE : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (int cpu = 0; cpu < count; ++cpu) {
    if (!known || CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

unsigned usable_cores() {
  const auto cores = static_cast<double>(allowed_cpus().size());
  // Rounded down: a thread more than the quota pays for gets all of them throttled.
  return static_cast<unsigned>(std::max(1.0, std::min(cores, cgroup_cpu_quota().value_or(cores))));
}

}  // namespace headrace::decode
