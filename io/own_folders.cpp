// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/own_folders.h"

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/io/environment.h"
#include "headrace/io/log.h"

namespace headrace::io {
namespace {

namespace fs = std::filesystem;

fs::path from_environment(const char* name) {
  const char* value = environment(name);
  return value == nullptr || *value != '/' ? fs::path() : fs::path(value);
}

// Who we are outside of a user namespace: the root of one that a user made (a rootless container, unshare -r) is that
// user, and what belongs to root outside is not his. user_namespaces(7): a line has the first ID within, the first ID
// outside, and how many follow them.
uid_t user_outside() {
  const std::uint64_t within = ::geteuid();
  std::ifstream map("/proc/self/uid_map");
  for (std::uint64_t first = 0, outside = 0, count = 0; map >> first >> outside >> count;) {
    if (within >= first && within - first < count) return static_cast<uid_t>(outside + (within - first));
  }
  return ::geteuid();
}

// The folder that $own names; else for root `root_default`; else headrace below $xdg; else the fallback.
fs::path choose_directory(const char* own, const char* root_default, const char* xdg, const fs::path& fallback) {
  if (fs::path path = from_environment(own); !path.empty()) return path;
  if (user_outside() == 0) return root_default;
  if (fs::path path = from_environment(xdg); !path.empty()) return path / "headrace";
  return fallback;
}

// What is wrong with a folder for sockets and logs, and the remedy: somebody else who controls it could replace them.
// Nothing when it is ours alone. A link is refused too, because its owner can turn it elsewhere.
std::optional<std::string> fault_of(const struct stat& status) {
  constexpr const char* kElsewhere = "set HEADRACE_RUNTIME_DIR, HEADRACE_CACHE_DIR or HEADRACE_LOG_DIR to one of yours";
  if (S_ISLNK(status.st_mode)) return fmt::format("is a symbolic link, not a folder; {}", kElsewhere);
  if (!S_ISDIR(status.st_mode)) return fmt::format("is not a folder; {}", kElsewhere);
  if (status.st_uid != ::geteuid()) return fmt::format("belongs to user {}; {}", status.st_uid, kElsewhere);
  if ((status.st_mode & 0077) != 0) return "can be entered by others; give it mode 0700 with chmod 700";
  return std::nullopt;
}

Status check_private(const fs::path& directory) {
  struct stat status {};
  if (::lstat(directory.c_str(), &status) != 0) return system_error(errno, directory.string());
  const std::optional<std::string> fault = fault_of(status);
  if (!fault) return {};
  return make_error(ErrorCode::kPermission, fmt::format("{} {}", directory.string(), *fault));
}

// Everybody can make this folder before we do, so nothing is used in it that is not proved to be ours.
fs::path fallback_in_tmp() {
  return fs::path("/tmp") / fmt::format("headrace-{}", user_outside());
}

Result<fs::path> make_private(const fs::path& directory) {
  if (directory.parent_path() == fallback_in_tmp()) {
    HEADRACE_TRY_DO(make_private(directory.parent_path()).map([](const fs::path&) {}));
  }
  std::error_code failure;
  fs::create_directories(directory.parent_path(), failure);
  if (failure) return system_error(failure.value(), "make folder " + directory.parent_path().string());
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return system_error(errno, "make folder " + directory.string());
  }
  HEADRACE_TRY_DO(check_private(directory));
  return directory;
}

// Makes the folder `usual`; where that cannot be written to (a read-only or full disk, the home of another user), the
// folder of that name in /tmp. What lies there only saves time, or is a log. A folder that is not ours alone is no such
// case, and what the variable `own` names is taken as it is.
Result<fs::path> make_private_or_in_tmp(const char* own, const fs::path& usual, const char* name) {
  Result<fs::path> made = make_private(usual);
  const bool refused = !made && made.error().os_errno == 0;
  const bool good = made && ::access(usual.c_str(), W_OK) == 0;
  if (good || refused || !from_environment(own).empty()) return made;
  const fs::path instead = fallback_in_tmp() / name;
  log_warning("{} cannot be written to; {} is used instead", usual.string(), instead.string());
  return make_private(instead);
}

// For users without XDG_RUNTIME_DIR, such as those of cron: the folder that it would name, where the system has made
// it.
fs::path runtime_fallback() {
  const fs::path of_user = fs::path("/run/user") / std::to_string(user_outside());
  if (check_private(of_user)) return of_user / "headrace";
  return fallback_in_tmp();
}

fs::path cache_fallback() {
  const fs::path home = from_environment("HOME");
  return home.empty() ? fallback_in_tmp() / "cache" : home / ".cache" / "headrace";
}

fs::path cache_directory_path() {
  return choose_directory("HEADRACE_CACHE_DIR", "/var/cache/headrace", "XDG_CACHE_HOME", cache_fallback());
}

}  // namespace

Status check_links(const fs::path& path, const std::string& what) {
  std::error_code failure;
  fs::path so_far;
  for (const fs::path& part : fs::absolute(path, failure)) {
    so_far /= part;
    struct stat info {};
    if (::lstat(so_far.c_str(), &info) != 0) return {};  // what is not there yet is no link
    if (!S_ISLNK(info.st_mode) || info.st_uid == 0 || info.st_uid == ::geteuid()) continue;
    return make_error(ErrorCode::kPermission,
                      fmt::format("{}: {} is a symbolic link of another user, who could turn it "
                                  "elsewhere; name the folder that it leads to",
                                  what, so_far.string()));
  }
  return {};
}

Result<fs::path> runtime_directory() {
  return make_private(choose_directory("HEADRACE_RUNTIME_DIR", "/run/headrace", "XDG_RUNTIME_DIR", runtime_fallback()));
}

Result<fs::path> cache_directory() {
  return make_private_or_in_tmp("HEADRACE_CACHE_DIR", cache_directory_path(), "cache");
}

Result<fs::path> log_directory() {
  return make_private_or_in_tmp(
      "HEADRACE_LOG_DIR",
      choose_directory("HEADRACE_LOG_DIR", "/var/log/headrace", "XDG_STATE_HOME", cache_directory_path()), "log");
}

}  // namespace headrace::io
