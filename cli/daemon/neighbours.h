// SPDX-License-Identifier: Apache-2.0
// The mounts that this user has on this machine, as their daemons describe themselves: one of them may show what
// another is to show, and together they have one memory.
//
//   for (const Neighbour& each : neighbours()) budget += each.budget_bytes;
//
// Not seen: mounts of other users, in other mount namespaces, and those that were started with other folders
// ($HEADRACE_RUNTIME_DIR). A daemon that does not answer at once is left out, so that nobody waits for it.
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>
#include <sys/types.h>

namespace headrace::cli {

struct Neighbour {
  std::filesystem::path place;        // where it is shown
  std::filesystem::path mount_point;  // where it was mounted at first; another daemon may be there now
  std::string source_name;            // mounted_name() of its source
  std::vector<std::string> words;     // of its options, "--ram=16G"
  std::filesystem::path working_folder;
  std::uint64_t source_device = 0;  // of the folder that it reads; 0: a bucket
  std::uint64_t source_inode = 0;
  std::uint64_t budget_bytes = 0;  // of memory
  std::uint64_t held_bytes = 0;    // in the page cache
  pid_t worker = 0;
};

// What the daemon of a mount tells of itself, as neighbours() reads it.
[[nodiscard]] nlohmann::json to_json(const Neighbour& neighbour);

// All but the mount that this process serves.
[[nodiscard]] std::vector<Neighbour> neighbours();

// What /proc tells of the control groups of a process, "self" or its number; empty: nothing.
[[nodiscard]] std::string control_group_of(const std::string& process);

// Of those that share the memory of this process: its machine's, or that of its control group where that has a limit.
[[nodiscard]] std::uint64_t budget_of(const std::vector<Neighbour>& all);
[[nodiscard]] std::uint64_t held_by(const std::vector<Neighbour>& all);

}  // namespace headrace::cli
