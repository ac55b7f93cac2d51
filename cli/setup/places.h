// SPDX-License-Identifier: Apache-2.0
// Where headrace keeps its own files, and the one name that a mount point has, however the user writes it.
//
//   control socket   $HEADRACE_RUNTIME_DIR, else root: /run/headrace, others: $XDG_RUNTIME_DIR/headrace,
//                    /run/user/UID/headrace or /tmp/headrace-UID
//   saved catalogs   $HEADRACE_CACHE_DIR, else root: /var/cache/headrace, others: $XDG_CACHE_HOME/headrace or
//                    ~/.cache/headrace
//   log files        $HEADRACE_LOG_DIR, else root: /var/log/headrace, others: the cache folder
//
// Where the usual folder for catalogs or logs cannot be written to, one below /tmp/headrace-UID is used, with a
// warning.
//
// Thread-safety: any thread. The functions read the environment.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "headrace/io/result.h"

namespace headrace::cli {

// The absolute path without symbolic links, "." and "..". Works for a path that does not exist, and for a mount point
// whose daemon died (nothing below it answers then).
[[nodiscard]] std::filesystem::path canonical_path(const std::filesystem::path& path);

// Whether `path` is `folder` or lies below it; both canonical.
[[nodiscard]] bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder);

// Each makes its folder with mode 0700 when it is missing.
// Errors: kPermission when it is a link, belongs to somebody else, or others may enter it.
[[nodiscard]] io::Result<std::filesystem::path> runtime_directory();
[[nodiscard]] io::Result<std::filesystem::path> cache_directory();
[[nodiscard]] io::Result<std::filesystem::path> log_directory();

// A file name that people recognise and that differs for each identity: "imagenet-0123456789abcdef.sock".
[[nodiscard]] std::string file_name_for(std::string_view readable, std::string_view identity, std::string_view ending);

// Errors: those of runtime_directory().
[[nodiscard]] io::Result<std::filesystem::path> control_socket_of(const std::filesystem::path& mount_point);

}  // namespace headrace::cli
