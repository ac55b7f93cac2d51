// SPDX-License-Identifier: Apache-2.0
// What the kernel tells of this machine in its small files.
#pragma once

#include <filesystem>
#include <string>

namespace headrace::cli {

// The first line of a small file such as those in /sys and /proc; "" where it cannot be read. Thread-safety: any
// thread.
[[nodiscard]] std::string read_line(const std::filesystem::path& file);

}  // namespace headrace::cli
