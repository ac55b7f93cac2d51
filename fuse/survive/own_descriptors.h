// SPDX-License-Identifier: Apache-2.0
// A killed process holds its descriptors until its last thread has gone. A thread that may be held up in the kernel, or
// whose end is to be noticed, therefore has a table of descriptors of its own.
#pragma once

#include <span>

#include "headrace/io/result.h"

namespace headrace::fuse {

// Leaves the calling thread with a table of its own that has the standard streams and `kept` (sorted). What
// other threads open or close from now on it does not see, nor they what it does. Errors: kSystem.
[[nodiscard]] io::Status keep_only(std::span<const int> kept);

}  // namespace headrace::fuse
