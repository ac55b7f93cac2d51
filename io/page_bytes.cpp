// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/page_bytes.h"

#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

namespace headrace::io {

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

void provide_pages(std::byte* data, std::size_t bytes) {
  const std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(data)) % page_bytes();  // up to the next page
  if (bytes <= head) return;
  const std::size_t whole = (bytes - head) / page_bytes() * page_bytes();
  if (whole > 0) ::madvise(data + head, whole, MADV_POPULATE_WRITE);
}

}  // namespace headrace::io
