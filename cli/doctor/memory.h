// SPDX-License-Identifier: Apache-2.0
// The part of doctor that looks at memory. `sys`: where sysfs is mounted; tests give it a folder of theirs.
// Thread-safety: any thread.
#pragma once

#include <filesystem>

#include "headrace/cli/doctor/doctor.h"

namespace headrace::cli {

[[nodiscard]] Finding examine_memory();
[[nodiscard]] Finding examine_huge_pages(const std::filesystem::path& sys);
// Whether DAMON gives back page cache that nobody has touched for a while: samples pushed ahead are just that.
[[nodiscard]] Finding examine_idle_reclaim(const std::filesystem::path& sys);

}  // namespace headrace::cli
