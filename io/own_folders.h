// SPDX-License-Identifier: Apache-2.0
// Where headrace keeps its own files.
//
//   control socket   $HEADRACE_RUNTIME_DIR, else root: /run/headrace, others: $XDG_RUNTIME_DIR/headrace,
//                    /run/user/UID/headrace or /tmp/headrace-UID
//   saved catalogs,  $HEADRACE_CACHE_DIR, else root: /var/cache/headrace, others: $XDG_CACHE_HOME/headrace or
//   indexes of JPEGs ~/.cache/headrace
//   log files        $HEADRACE_LOG_DIR, else root: /var/log/headrace, others: the cache folder
//
// The root of a user namespace (a rootless container) is the user that he is outside of it, and UID that number.
// Where the usual folder for catalogs or logs cannot be written to, one below /tmp/headrace-UID is used, with a
// warning.
//
// Thread-safety: any thread. The functions read the environment.
#pragma once

#include <filesystem>
#include <string>

#include "headrace/io/result.h"

namespace headrace::io {

// Each makes its folder with mode 0700 when it is missing.
// Errors: kPermission when it is a link, belongs to somebody else, or others may enter it.
[[nodiscard]] Result<std::filesystem::path> runtime_directory();
[[nodiscard]] Result<std::filesystem::path> cache_directory();
[[nodiscard]] Result<std::filesystem::path> log_directory();

// Refuses (kPermission, naming the link) a path with a symbolic link that neither root nor the caller made: its owner
// could turn it to another place at any moment. The caller's own links are followed. Check a path as the user wrote it;
// a resolved one has no links any more. `what`: how the message begins.
[[nodiscard]] Status check_links(const std::filesystem::path& path, const std::string& what);

}  // namespace headrace::io
