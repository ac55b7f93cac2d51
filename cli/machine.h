// SPDX-License-Identifier: Apache-2.0
// What this machine, or the container we run in, lets us use.
#pragma once

#include <cstdint>

namespace headrace::cli {

// Memory that this process may use: the machine's, or what its control group (version 1 or 2) allows where that is
// less. Thread-safety: any thread.
[[nodiscard]] std::uint64_t memory_limit_bytes();

}  // namespace headrace::cli
