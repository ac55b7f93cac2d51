// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/doctor/readers.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>

#include <fmt/core.h>

#include "headrace/cli/doctor/small_file.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::duration;
using std::chrono::steady_clock;

constexpr double kNano = 1e9;
// A job has hundreds of workers at most. More than this are not watched one by one.
constexpr std::size_t kWatchedMax = 1024;

std::optional<pid_t> process_number(const fs::path& folder) {
  const std::string name = folder.filename().string();
  pid_t pid = 0;
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (failure != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return pid;
}

struct Relation {
  pid_t parent = 0;
  pid_t group = 0;
};

// From /proc/PID/stat: "PID (name) state parent group ...", where the name may hold anything (proc(5)).
std::optional<Relation> relation_of(const fs::path& process) {
  const std::string line = read_line(process / "stat");
  const std::size_t name_end = line.rfind(") ");
  if (name_end == std::string::npos || name_end + 4 >= line.size()) return std::nullopt;
  Relation relation;
  const char* const end = line.data() + line.size();
  const auto parent = std::from_chars(line.data() + name_end + 4, end, relation.parent);
  if (parent.ec != std::errc{} || parent.ptr == end) return std::nullopt;
  if (std::from_chars(parent.ptr + 1, end, relation.group).ec != std::errc{}) return std::nullopt;
  return relation;
}

}  // namespace

std::optional<ReaderWatch::Look> ReaderWatch::look_at(pid_t pid) {
  Look look{.at = steady_clock::now()};
  bool found = false;
  std::error_code failure;
  for (const fs::directory_entry& task : fs::directory_iterator(fmt::format("/proc/{}/task", pid), failure)) {
    std::ifstream file(task.path() / "schedstat");  // nanoseconds on a core, nanoseconds in wait for one, ...
    double ran = 0;
    double waited = 0;
    if (!(file >> ran >> waited)) continue;
    look.cpu_seconds += ran / kNano;
    look.core_seconds += waited / kNano;
    found = true;
  }
  return found ? std::optional(look) : std::nullopt;
}

void ReaderWatch::note(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) {
    if (watched_.size() >= kWatchedMax || watched_.contains(pid)) continue;
    if (const std::optional<Look> look = look_at(pid)) watched_[pid] = {*look, *look};
  }
  for (auto& [pid, watched] : watched_) {
    const std::optional<Look> look = look_at(pid);
    // A number that was given to another process begins with less than the one before had.
    if (look && look->cpu_seconds >= watched.last.cpu_seconds) watched.last = *look;
  }
}

ReaderTimes ReaderWatch::times() const {
  ReaderTimes times;
  for (const auto& [pid, watched] : watched_) {
    const double seconds = duration<double>(watched.last.at - watched.first.at).count();
    if (seconds <= 0) continue;
    ++times.readers;
    times.seconds += seconds;
    times.cpu_seconds += watched.last.cpu_seconds - watched.first.cpu_seconds;
    times.core_seconds += watched.last.core_seconds - watched.first.core_seconds;
  }
  return times;
}

std::vector<pid_t> workers_of_group(pid_t group) {
  std::vector<pid_t> members;
  std::set<pid_t> parents;
  std::error_code failure;
  for (const fs::directory_entry& process : fs::directory_iterator("/proc", failure)) {
    const std::optional<pid_t> pid = process_number(process.path());
    if (!pid) continue;
    const std::optional<Relation> relation = relation_of(process.path());
    if (!relation || relation->group != group) continue;
    members.push_back(*pid);
    parents.insert(relation->parent);
  }
  std::erase_if(members, [&](pid_t pid) { return parents.contains(pid); });
  return members;
}

}  // namespace headrace::cli
