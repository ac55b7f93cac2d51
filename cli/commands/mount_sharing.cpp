// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/mount_sharing.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/cli/daemon/comparison.h"
#include "headrace/cli/daemon/place_links.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/setup/size.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/terminal.h"
#include "headrace/fuse/mounts.h"
#include "headrace/io/memory_limit.h"
#include "headrace/io/own_folders.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::system_error;

using Values = std::map<std::string, std::vector<std::string>>;

Values by_option(const std::vector<std::string>& words) {
  Values values;
  for (const std::string& word : words) {
    const std::size_t equals = std::min(word.find('='), word.size());
    values[word.substr(0, equals)].push_back(word.substr(std::min(equals + 1, word.size())));
  }
  return values;
}

// Whether a value means another file in another folder. Those that name no file are no paths, whatever they begin with.
bool is_relative_path(const std::string& option, const std::string& value) {
  constexpr std::array<std::string_view, 5> kPaths = {"--ssd", "--hdd", "--samples", "--peer-tls", "--scratch"};
  if (std::ranges::find(kPaths, option) != kPaths.end()) return !value.starts_with('/');
  constexpr std::string_view kFile = "file:";
  const std::size_t file = value.find(kFile);
  return file != std::string::npos && !value.substr(file + kFile.size()).starts_with('/');
}

// The variables of a process whose names begin with one of these.
std::set<std::string> environment_of(const std::string& process, std::initializer_list<std::string_view> beginnings) {
  std::ifstream stream("/proc/" + process + "/environ");
  std::set<std::string> found;
  for (std::string variable; std::getline(stream, variable, '\0');) {
    if (std::ranges::any_of(beginnings, [&](auto beginning) { return variable.starts_with(beginning); }))
      found.insert(variable);
  }
  return found;
}

// Where the keys and the endpoint of a bucket come from, beside the options.
std::set<std::string> bucket_environment(const std::string& process) {
  return environment_of(process, {"AWS_", "HOME="});
}

bool is_in_job(const std::string& process) {
  return !environment_of(process, {"SLURM_JOB_ID="}).empty();
}

// A daemon ends with the job that it was started in, and takes its memory from that job's. Sessions of people who log
// in have control groups, too, but no limits.
bool is_in_another_group(const Neighbour& other) {
  const std::string worker = std::to_string(other.worker);
  if (control_group_of("self") == control_group_of(worker)) return false;
  return io::control_group_memory_limit() || io::control_group_memory_limit({.self = "/proc/" + worker + "/cgroup"}) ||
         is_in_job("self") || is_in_job(worker);
}

bool has_no_memory(const Values& values) {
  const auto ram = values.find("--ram");
  if (ram == values.end() || ram->second.empty()) return false;
  const io::Result<std::uint64_t> bytes = parse_size(ram->second.back(), io::memory_limit_bytes());
  return bytes && *bytes == 0;
}

// Why the daemon of the neighbour cannot serve this mount; empty: it can.
std::vector<std::string> differences(const MountArguments& arguments, const MountPlan& plan, const Neighbour& other) {
  Values own = by_option(arguments.words);
  Values others = by_option(other.words);
  for (Values* values : {&own, &others}) values->erase("--log-level");
  if (arguments.cache.ram.empty() && !has_no_memory(others)) others.erase("--ram");  // as much as there is
  std::set<std::string> found;
  for (const auto& [option, values] : own) {
    const auto same = others.find(option);
    const bool is_elsewhere = plan.working_folder != other.working_folder &&
                              std::ranges::any_of(values, [name = option](const std::string& value) {
                                return is_relative_path(name, value);
                              });
    if (same == others.end() || same->second != values || is_elsewhere) found.insert(option);
  }
  for (const auto& [option, values] : others) {
    if (!own.contains(option)) found.insert(option);
  }
  // An overlay lies on one place, and what is in the foreground ends with whoever started it.
  for (const char* alone : {"--overlay", "--scratch", "--foreground"}) {
    if (own.contains(alone)) found.insert(alone);
  }
  if (plan.source.is_bucket() && bucket_environment("self") != bucket_environment(std::to_string(other.worker))) {
    found.insert("the environment");
  }
  if (is_in_another_group(other)) found.insert("another control group");
  if (::geteuid() != 0) found.insert("only root can show a mount at a second place");
  return {found.begin(), found.end()};
}

// Whether it reads the very folder that is to be shown. That may be covered by the mount itself.
bool is_same_source(const MountPlan& plan, const Neighbour& other) {
  if (other.source_name != mounted_name(plan.source.path)) return false;
  if (plan.source.is_bucket()) return other.source_device == 0;
  struct stat source {};
  struct stat shown {};
  if (::fstat(plan.source.directory.get(), &source) != 0) return false;
  if (source.st_dev == other.source_device && source.st_ino == other.source_inode) return true;
  if (::stat(other.place.c_str(), &shown) != 0) return false;
  return source.st_dev == shown.st_dev && source.st_ino == shown.st_ino;
}

bool is_still_named(const fs::path& file, int lock) {
  struct stat named {};
  struct stat locked {};
  return ::stat(file.c_str(), &named) == 0 && ::fstat(lock, &locked) == 0 && named.st_ino == locked.st_ino;
}

}  // namespace

io::Result<MountTurn> MountTurn::take(const fs::path& source) {
  HEADRACE_TRY(directory, io::runtime_directory());
  const fs::path file = directory / file_name_for(source.filename().native(), source.native(), ".turn");
  bool was_told = false;
  while (true) {
    io::UniqueFd lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock.valid()) return system_error(errno, file.string());
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return system_error(errno, "lock " + file.string());
      if (!std::exchange(was_told, true)) {
        print_line(stderr, fmt::format("headrace: waits for another mount of {} that is starting", source.string()));
      }
      while (::flock(lock.get(), LOCK_EX) != 0) {
        if (errno != EINTR) return system_error(errno, "lock " + file.string());
      }
    }
    // Who had it before has removed it.
    if (is_still_named(file, lock.get())) return MountTurn(file, std::move(lock));
  }
}

// Processes that were forked meanwhile have the same lock open.
void MountTurn::end() {
  if (!lock_.valid()) return;
  ::unlink(file_.c_str());
  ::flock(lock_.get(), LOCK_UN);
  lock_.reset();
}

io::Result<bool> show_by_neighbour(const MountArguments& arguments, const MountPlan& plan,
                                   const std::vector<Neighbour>& all) {
  for (const Neighbour& other : all) {
    if (!is_same_source(plan, other)) continue;
    const std::vector<std::string> reasons = differences(arguments, plan, other);
    if (!reasons.empty()) {
      print_line(stderr,
                 fmt::format("headrace: {} shows the same data set, but its daemon cannot serve {} as well ({}), which "
                             "gets memory and reads of its own",
                             other.place.string(), plan.mount_point.string(), fmt::join(reasons, ", ")));
      continue;
    }
    HEADRACE_TRY(is_shown, fuse::show_also_at(other.place, plan.mount_point, plan.over_source));
    if (!is_shown) continue;  // it has just been unmounted
    HEADRACE_TRY_DO(link_place(plan.mount_point, other.place));
    print_line(stderr, fmt::format("headrace: {} shows what is mounted at {}, by the same daemon",
                                   plan.mount_point.string(), other.place.string()));
    return true;
  }
  return false;
}

void bring_up_to_date(const fs::path& mount_point) {
  // A catalog of some hundred thousand files is compared within it; a larger one is mounted as it was saved, too, and
  // compared behind that.
  constexpr std::chrono::milliseconds kPatience{5'000};
  const io::Result<Comparison> found = compare_source(mount_point, kPatience);
  std::string trouble;
  if (!found) {
    trouble = found.error().message();
  } else if (!found->has_ended) {
    trouble = "the source is still compared with what is shown; what is new shows after that";
  } else if (!found->is_shown && !found->why_not_shown.empty()) {
    trouble = (found->appeared > 0 ? "names that are new in the source are not shown: "
                                   : "names that have vanished are still shown: ") +
              found->why_not_shown;
  }
  if (!trouble.empty()) print_line(stderr, fmt::format("headrace: {}: {}", mount_point.string(), trouble));
}

// Half of what the others leave of one half of the memory: a quarter, an eighth, and so on, so that all mounts together
// leave the programs of the machine the other half.
std::string take_share_of_memory(MountArguments& arguments, const std::vector<Neighbour>& all) {
  const std::uint64_t taken = budget_of(all);
  if (!arguments.cache.ram.empty() || taken == 0) return {};
  const std::uint64_t half = io::memory_limit_bytes() / 2;
  const std::uint64_t own = std::max((half - std::min(half, taken)) / 2, kRamLeast);
  arguments.cache.ram = std::to_string(own);
  arguments.words.push_back("--ram=" + arguments.cache.ram);
  return fmt::format("other mounts of this machine have {} of memory; this one takes {}, and another amount with --ram",
                     format_size(taken), format_size(own));
}

}  // namespace headrace::cli
