// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/prune.h"

#include <algorithm>
#include <system_error>

#include <sys/stat.h>

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::vector<KeptFile> kept_files(const fs::path& folder, std::string_view ending) {
  std::vector<KeptFile> files;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failure)) {
    struct stat status {};
    if (!entry.path().native().ends_with(ending) || ::lstat(entry.path().c_str(), &status) != 0) continue;
    if (!S_ISREG(status.st_mode)) continue;
    files.push_back({entry.path(), static_cast<std::uint64_t>(status.st_size),
                     std::max<std::int64_t>(status.st_atime, status.st_mtime)});
  }
  std::sort(files.begin(), files.end(), [](const KeptFile& a, const KeptFile& b) { return a.used_at > b.used_at; });
  return files;
}

void prune(const fs::path& folder, std::string_view ending, const KeepLimits& limits,
           const std::function<bool(const fs::path& file)>& is_in_use) {
  std::size_t files = 0;
  std::uint64_t bytes = 0;
  for (const KeptFile& file : kept_files(folder, ending)) {
    ++files;
    bytes += file.bytes;
    if ((files <= limits.files && bytes <= limits.bytes) || is_in_use(file.path)) continue;
    std::error_code failure;
    if (!fs::remove(file.path, failure)) continue;
    --files;
    bytes -= file.bytes;
  }
}

}  // namespace headrace::cli
