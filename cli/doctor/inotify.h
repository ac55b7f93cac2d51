// SPDX-License-Identifier: Apache-2.0
// The part of doctor that looks at inotify, by which a mount sees what its readers open. `proc` is where procfs is
// mounted; tests give a folder of their own.
// Thread-safety: any thread.
#pragma once

#include <filesystem>

#include "headrace/cli/doctor/doctor.h"

namespace headrace::cli {

[[nodiscard]] Finding examine_inotify_queue(const std::filesystem::path& proc);
[[nodiscard]] Finding examine_inotify_watches(const std::filesystem::path& proc);
// How many instances this user has, of those that he may have: each mount takes one.
[[nodiscard]] Finding examine_inotify_instances(const std::filesystem::path& proc);

}  // namespace headrace::cli
