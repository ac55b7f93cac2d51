// SPDX-License-Identifier: Apache-2.0
// The one name that a mount point has, however the user writes it, and the files that are called after it.
//
// Thread-safety: any thread.
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

// A file name that people recognise and that differs for each identity: "imagenet-0123456789abcdef.sock".
[[nodiscard]] std::string file_name_for(std::string_view readable, std::string_view identity, std::string_view ending);

// Gives this process and those that it starts a runtime folder of their own, below the user's: a mount that only they
// see may have the name of another one. They find it by HEADRACE_RUNTIME_DIR. The process must have one thread.
[[nodiscard]] io::Status use_own_runtime_folder();
// Removes that folder, if it is empty by now.
void remove_own_runtime_folder();

// Errors: those of io::runtime_directory().
[[nodiscard]] io::Result<std::filesystem::path> control_socket_of(const std::filesystem::path& mount_point);

}  // namespace headrace::cli
