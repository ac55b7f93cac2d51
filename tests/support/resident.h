// SPDX-License-Identifier: Apache-2.0
// What a range of memory holds of the machine's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>
#include <sys/mman.h>

#include "headrace/io/page_bytes.h"

namespace headrace::test {

// Pages of the range that hold memory now, in bytes. `data` starts a page.
inline std::size_t resident_bytes(const std::byte* data, std::size_t bytes) {
  std::vector<unsigned char> pages((bytes + io::page_bytes() - 1) / io::page_bytes());
  REQUIRE(::mincore(const_cast<std::byte*>(data), bytes, pages.data()) == 0);
  const auto present = std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; });
  return static_cast<std::size_t>(present) * io::page_bytes();
}

}  // namespace headrace::test
