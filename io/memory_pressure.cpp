// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/memory_pressure.h"

#include <charconv>
#include <fstream>
#include <string>

namespace headrace::io {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;

// Of the two seconds between three looks. Reclaim that nobody notices takes less.
constexpr microseconds kWaitedLeast{200'000};

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=19618", in microseconds since the start.
std::optional<microseconds> waited_in_all(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  if (file.empty() || !std::getline(stream, line)) return std::nullopt;
  constexpr std::string_view kTotal = "total=";
  const std::size_t at = line.find(kTotal);
  std::int64_t count = 0;
  if (at == std::string::npos) return std::nullopt;
  const char* const digits = line.data() + at + kTotal.size();
  if (std::from_chars(digits, line.data() + line.size(), count).ec != std::errc()) return std::nullopt;
  return microseconds(count);
}

// Only our own group: the count of those above it is that of other groups, too. The root of the hierarchy, which has no
// type, counts all the machine.
fs::path pressure_file_of_group(const ControlGroupPaths& paths) {
  std::error_code failure;
  for (const ControlGroup& group : control_groups("memory", paths)) {
    if (group.version != 2 || !fs::exists(group.folder / "memory.pressure", failure)) continue;
    return fs::exists(group.folder / "cgroup.type", failure) ? group.folder / "memory.pressure" : fs::path();
  }
  return {};
}

}  // namespace

MemoryPressure::MemoryPressure(const MemoryPressurePaths& paths)
    : group_{.file = pressure_file_of_group(paths.groups)}, machine_{.file = paths.machine}, memory_(paths.memory) {
  can_tell_ = false;
  for (Count* count : {&group_, &machine_}) {
    const std::optional<microseconds> now = waited_in_all(count->file);
    if (!now) continue;
    count->before = {*now, *now};
    can_tell_ = true;
  }
}

bool MemoryPressure::waits(Count& count) {
  const std::optional<microseconds> now = waited_in_all(count.file);
  if (!now) return false;
  const microseconds waited = *now - count.before[0];
  count.before = {count.before[1], *now};
  return waited >= kWaitedLeast;
}

MemoryPressure::Signs MemoryPressure::look() {
  return {.group_waits = waits(group_),
          .machine_waits = waits(machine_),
          .available_bytes = available_memory_bytes(memory_).value_or(0)};
}

std::optional<std::uint64_t> available_memory_bytes(const fs::path& memory) {
  std::ifstream stream(memory);
  for (std::string name; stream >> name;) {
    std::uint64_t kibibytes = 0;
    if (name == "MemAvailable:" && stream >> kibibytes) return kibibytes << 10;
    std::getline(stream, name);
  }
  return std::nullopt;
}

}  // namespace headrace::io
