// SPDX-License-Identifier: Apache-2.0
// The part of doctor that looks at memory. `sys` is where sysfs is mounted; tests give a folder of their own.
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "headrace/cli/doctor/doctor.h"

namespace headrace::cli {

[[nodiscard]] Finding examine_memory();
// What a running mount may use of what was asked for; `shortage`: why it is less, empty where it is not.
[[nodiscard]] Finding examine_budget(std::uint64_t asked_bytes, std::uint64_t budget_bytes,
                                     const std::string& shortage);
[[nodiscard]] Finding examine_huge_pages(const std::filesystem::path& sys);
// Whether DAMON gives back page cache that nobody has touched for a while. Samples that wait for their reader are such
// page cache.
[[nodiscard]] Finding examine_idle_reclaim(const std::filesystem::path& sys);

}  // namespace headrace::cli
