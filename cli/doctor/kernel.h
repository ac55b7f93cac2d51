// SPDX-License-Identifier: Apache-2.0
// The part of doctor that knows what older kernels lack. README.md has the same as a table ("Limits").
// Thread-safety: any thread.
#pragma once

#include <string_view>

#include "headrace/cli/doctor/doctor.h"

namespace headrace::cli {

// `release`: as uname -r prints it, "6.1.0-28-amd64". One that cannot be read counts as older than all.
[[nodiscard]] Finding examine_kernel(std::string_view release);

}  // namespace headrace::cli
