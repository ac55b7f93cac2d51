// SPDX-License-Identifier: Apache-2.0
// Reads the small files in which the kernel describes this machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace headrace::cli {

// The first line of a small file such as those in /sys and /proc; "" when it cannot be read.
// Thread-safety: any thread.
[[nodiscard]] std::string read_line(const std::filesystem::path& file);
// 0 when the file is missing or holds no number.
[[nodiscard]] std::uint64_t read_number(const std::filesystem::path& file);

}  // namespace headrace::cli
