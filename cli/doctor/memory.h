// SPDX-License-Identifier: Apache-2.0
// The part of doctor that looks at memory. `sys` is where sysfs is mounted; tests give a folder of their own.
// Thread-safety: any thread.
#pragma once

#include <filesystem>

#include "headrace/cli/doctor/doctor.h"

namespace headrace::cli {

[[nodiscard]] Finding examine_memory();
[[nodiscard]] Finding examine_huge_pages(const std::filesystem::path& sys);
// Whether DAMON gives back page cache that nobody has touched for a while. Samples that wait for their reader are such
// page cache.
[[nodiscard]] Finding examine_idle_reclaim(const std::filesystem::path& sys);

}  // namespace headrace::cli
