// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/doctor/memory.h"

#include <fmt/core.h>
#include <unistd.h>

#include "headrace/cli/doctor/small_file.h"
#include "headrace/cli/show/figures.h"
#include "headrace/io/memory_limit.h"
#include "headrace/io/page_bytes.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

// A module parameter of boolean type reads "Y" or "N".
bool is_on(const fs::path& parameter) {
  return read_line(parameter) == "Y";
}

// The file that says "on" for a monitor that somebody has started by hand; empty: no monitor runs.
// Documentation/admin-guide/mm/damon/usage.rst: kdamonds/<N>/state.
fs::path running_monitor(const fs::path& sys) {
  std::error_code failure;
  for (const auto& monitor : fs::directory_iterator(sys / "kernel/mm/damon/admin/kdamonds", failure)) {
    if (read_line(monitor.path() / "state") == "on") return monitor.path() / "state";
  }
  return {};
}

}  // namespace

Finding examine_memory() {
  const std::uint64_t machine = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * io::page_bytes();
  const std::uint64_t limit = io::memory_limit_bytes();
  Finding finding{.name = "memory", .health = Health::kGood, .text = format_size(machine)};
  if (limit < machine) {
    finding.health = Health::kLimit;
    finding.text = fmt::format("{} of {}, limited by the control group; pushed samples count, too", format_size(limit),
                               format_size(machine));
    finding.remedy =
        "docker run --memory, Slurm --mem, Kubernetes resources.limits.memory, systemd MemoryMax=: raise it";
  }
  return finding;
}

Finding examine_budget(std::uint64_t asked_bytes, std::uint64_t budget_bytes, const std::string& shortage) {
  if (asked_bytes == 0) return {.name = "budget", .health = Health::kInfo, .text = "none: nothing is pushed"};
  if (shortage.empty()) return {.name = "budget", .health = Health::kGood, .text = format_size(asked_bytes)};
  return {.name = "budget",
          .health = Health::kLimit,
          .text = fmt::format("{} of {} now: {}", format_size(budget_bytes), format_size(asked_bytes), shortage),
          .remedy = "a smaller --ram, fewer programs beside it, or a higher limit of the control group"};
}

Finding examine_huge_pages(const fs::path& sys) {
  const std::string setting = read_line(sys / "kernel/mm/transparent_hugepage/enabled");
  Finding finding{.name = "huge pages", .health = Health::kGood, .text = "used where a program asks for them"};
  if (setting.empty()) finding.text = "not offered";
  if (setting.find("[never]") != std::string::npos) {
    finding.health = Health::kInfo;
    finding.text = "switched off";
    finding.remedy = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)";
  }
  return finding;
}

Finding examine_idle_reclaim(const fs::path& sys) {
  Finding finding{
      .name = "idle reclaim", .health = Health::kGood, .text = "off: pushed samples stay until they are read"};
  const fs::path switch_file = sys / "module/damon_reclaim/parameters/enabled";
  if (is_on(switch_file)) {
    finding.health = Health::kLimit;
    finding.text =
        "DAMON takes page cache that nobody reads for a while; samples that were pushed long before are lost";
    finding.remedy = fmt::format("echo N > {} (as root)", switch_file.string());
  } else if (const fs::path monitor = running_monitor(sys); !monitor.empty()) {
    finding.health = Health::kInfo;
    finding.text = "a DAMON monitor runs; if its scheme pages out, samples that wait long are lost";
    finding.remedy = fmt::format("echo off > {} (as root)", monitor.string());
  }
  return finding;
}

}  // namespace headrace::cli
