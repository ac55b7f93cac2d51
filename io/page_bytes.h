// SPDX-License-Identifier: Apache-2.0
// The page of the running kernel, in which the page cache holds files and memory is given: 4 KiB on x86; 4, 16 or 64
// KiB on aarch64. Direct I/O needs no more than kBufferAlignment (io/buffer.h) on any of them.
//
//   const std::size_t pages = (file_bytes + io::page_bytes() - 1) / io::page_bytes();
//
// Thread-safety: from any thread.
#pragma once

#include <cstddef>

namespace headrace::io {

// A power of two, and at least 4096.
[[nodiscard]] std::size_t page_bytes();

// Takes the whole pages between `data` and `data + bytes` from the system at once (Linux 5.14; no effect before). It
// takes each when it is first written otherwise, which costs twice as much. No error: what the system does not have is
// missed when it is used.
void provide_pages(std::byte* data, std::size_t bytes);

}  // namespace headrace::io
