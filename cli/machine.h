// SPDX-License-Identifier: Apache-2.0
// What this machine, or the container we run in, lets us use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace headrace::cli {

// Memory that this process may use: the machine's, or what its control group (version 1 or 2) allows where that is
// less. Thread-safety: any thread.
[[nodiscard]] std::uint64_t memory_limit_bytes();

// What the control groups of the calling process allow: the least limit of the whole path; nullopt: there is none.
// The parameters are for tests. Thread-safety: any thread.
[[nodiscard]] std::optional<std::uint64_t> control_group_memory_limit(
    const std::filesystem::path& cgroup_root = "/sys/fs/cgroup",
    const std::filesystem::path& self_cgroup = "/proc/self/cgroup");

// The first line of a small file such as those in /sys and /proc; "" where it cannot be read.
[[nodiscard]] std::string read_line(const std::filesystem::path& file);

}  // namespace headrace::cli
