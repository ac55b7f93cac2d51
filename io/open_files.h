// SPDX-License-Identifier: Apache-2.0
// Room for open files. The usual soft limit of a shell is 1024, and a tier or a bucket wants more than that alone.
//
//   const std::uint64_t limit = allow_open_files(1'024);   // connections
//
// Thread-safety: from any thread.
#pragma once

#include <cstdint>

namespace headrace::io {

// Raises the process's soft limit, up to the hard one, so that `count` fit beside what else is open. Returns the limit;
// a log line tells where `count` is too many for it.
std::uint64_t allow_open_files(std::uint64_t count);

}  // namespace headrace::io
