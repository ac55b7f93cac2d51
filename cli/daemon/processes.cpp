// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/processes.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <system_error>

#include <fmt/core.h>
#include <unistd.h>

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHoldersShown = 5;  // enough to act on, and still one line

std::string read_file(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Where a link of /proc leads; empty where this user may not look.
std::string link_text(const fs::path& link) {
  std::error_code failure;
  return fs::read_symlink(link, failure).string();
}

std::string command_of(pid_t pid) {
  std::string name = read_file(fmt::format("/proc/{}/comm", pid));
  if (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", failure)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc{} && end == name.data() + name.size() && pid != ::getpid()) pids.push_back(pid);
  }
  return pids;
}

bool is_at_or_below(const std::string& path, const std::string& folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

std::size_t open_files(const fs::path& process, const std::string& folder) {
  std::size_t count = 0;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(process / "fd", failure)) {
    if (is_at_or_below(link_text(entry.path()), folder)) ++count;
  }
  return count;
}

bool has_mounted(const fs::path& process, const std::vector<std::string>& devices) {
  std::istringstream lines(read_file(process / "mountinfo"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);  // id parent major:minor ... (proc(5))
    std::string word;
    words >> word >> word >> word;
    if (std::find(devices.begin(), devices.end(), word) != devices.end()) return true;
  }
  return false;
}

}  // namespace

std::string describe(const std::vector<Holder>& holders) {
  std::string text;
  for (std::size_t i = 0; i < std::min(holders.size(), kHoldersShown); ++i) {
    text += fmt::format("{}{} (pid {}) {}", i == 0 ? "" : ", ", holders[i].command, holders[i].pid, holders[i].how);
  }
  if (holders.size() > kHoldersShown) text += fmt::format(" and {} more", holders.size() - kHoldersShown);
  return text;
}

std::vector<Holder> users_of(const fs::path& mount_point) {
  std::vector<Holder> holders;
  for (const pid_t pid : all_processes()) {
    const fs::path process = fmt::format("/proc/{}", pid);
    const std::size_t files = open_files(process, mount_point.native());
    const bool works_there = is_at_or_below(link_text(process / "cwd"), mount_point.native());
    if (works_there) {
      holders.push_back({pid, command_of(pid), "works in it"});
    } else if (files > 0) {
      holders.push_back({pid, command_of(pid), fmt::format("has {} of its files open", files)});
    }
  }
  return holders;
}

std::vector<Holder> namespaces_with(const std::vector<std::string>& devices) {
  std::vector<Holder> holders;
  std::set<std::string> seen = {link_text("/proc/self/ns/mnt")};
  for (const pid_t pid : all_processes()) {
    const fs::path process = fmt::format("/proc/{}", pid);
    const std::string name = link_text(process / "ns/mnt");
    if (name.empty() || !seen.insert(name).second || !has_mounted(process, devices)) continue;
    holders.push_back({pid, command_of(pid), fmt::format("still has it mounted in its mount namespace {}", name)});
  }
  return holders;
}

}  // namespace headrace::cli
