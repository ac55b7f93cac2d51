// SPDX-License-Identifier: Apache-2.0
// Writes all bytes at a place of a file, where one write() may take fewer or be interrupted.
//
//   HEADRACE_TRY_DO(write_all(fd, std::as_bytes(std::span(line)), 0, "tier label"));
//
// Thread-safety: any thread. It waits for the file system. Ownership: borrows everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "headrace/io/result.h"

namespace headrace::io {

// `name` is what an error names. A file opened with O_APPEND gets the bytes at its end, whatever `offset` says.
[[nodiscard]] Status write_all(int fd, std::span<const std::byte> bytes, std::uint64_t offset, const std::string& name);

}  // namespace headrace::io
