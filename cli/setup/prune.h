// SPDX-License-Identifier: Apache-2.0
// Keeps a folder of ours from growing for ever.
//
//   prune(*io::log_directory(), ".log", {.files = 64, .bytes = 256 << 20}, is_in_use);
//
// Thread-safety: any thread, any process: a file that somebody else has removed meanwhile is no error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace headrace::cli {

struct KeptFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::int64_t used_at = 0;  // seconds; file systems write the time of the last read once a day at least (relatime)
};
// The regular files in `folder` that end in `ending`, those that were used last first.
[[nodiscard]] std::vector<KeptFile> kept_files(const std::filesystem::path& folder, std::string_view ending);

// What is kept of the files with one ending.
struct KeepLimits {
  std::size_t files = 0;
  std::uint64_t bytes = 0;
};

// Removes those of the files in `folder` that end in `ending` and were read or written longest ago, until the others
// are within the limits. Files that `is_in_use` says so of count, but stay.
void prune(const std::filesystem::path& folder, std::string_view ending, const KeepLimits& limits,
           const std::function<bool(const std::filesystem::path& file)>& is_in_use);

}  // namespace headrace::cli
