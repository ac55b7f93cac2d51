// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/doctor/inotify.h"

#include <cstdint>
#include <string>
#include <system_error>

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/cli/doctor/small_file.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

bool is_own(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

// One that two processes share counts twice.
std::uint64_t count_instances(const fs::path& process) {
  std::uint64_t count = 0;
  std::error_code failure;  // the process may end meanwhile
  for (fs::directory_iterator file(process / "fd", failure), end; !failure && file != end; file.increment(failure)) {
    std::error_code closed;
    count += fs::read_symlink(*file, closed).native().find("inotify") != std::string::npos ? 1 : 0;
  }
  return count;
}

std::uint64_t count_own_instances(const fs::path& proc) {
  std::uint64_t count = 0;
  std::error_code failure;
  for (fs::directory_iterator process(proc, failure), end; !failure && process != end; process.increment(failure)) {
    const std::string name = process->path().filename();
    const bool is_process = name.find_first_not_of("0123456789") == std::string::npos;
    if (is_process && is_own(process->path())) count += count_instances(process->path());
  }
  return count;
}

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

Finding examine_inotify_instances(const fs::path& proc) {
  constexpr std::uint64_t kSpare = 16;  // eight mounts, and an editor or two
  constexpr std::uint64_t kEnough = 1024;
  const std::uint64_t most = read_number(proc / "sys/fs/inotify/max_user_instances");
  const std::uint64_t used = count_own_instances(proc);
  Finding finding{.name = "inotify instances",
                  .health = Health::kGood,
                  .text = fmt::format("{} of {} in use by this user; a mount takes one", used, most)};
  if (used + kSpare > most) {
    finding.health = Health::kLimit;
    finding.text += ", and follows its reader by READs without";
    finding.remedy = fmt::format("sysctl fs.inotify.max_user_instances={}", kEnough);
  }
  return finding;
}

}  // namespace headrace::cli
