// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/doctor/inotify.h"

#include <cstdint>

#include <fmt/core.h>

#include "headrace/cli/doctor/small_file.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

}  // namespace

Finding examine_inotify_queue(const fs::path& proc) {
  constexpr std::uint64_t kEnough = 131'072;  // the opens of a few seconds at the highest rates that were measured
  const std::uint64_t queued = read_number(proc / "sys/fs/inotify/max_queued_events");
  Finding finding{.name = "inotify queue", .health = Health::kGood, .text = fmt::format("{} events", queued)};
  if (queued < kEnough) {
    finding.health = Health::kLimit;
    finding.text += ": fast readers can overflow it; headrace then finds their position again from later opens";
    finding.remedy = fmt::format("sysctl fs.inotify.max_queued_events={}", kEnough);
  }
  return finding;
}

Finding examine_inotify_watches(const fs::path& proc) {
  constexpr std::uint64_t kEnough = 65'536;  // one per folder of the data set
  const std::uint64_t watches = read_number(proc / "sys/fs/inotify/max_user_watches");
  Finding finding{.name = "inotify watches", .health = Health::kGood, .text = fmt::format("{} folders", watches)};
  if (watches < kEnough) {
    finding.health = Health::kLimit;
    finding.remedy = fmt::format("sysctl fs.inotify.max_user_watches={}", kEnough);
  }
  return finding;
}

}  // namespace headrace::cli
