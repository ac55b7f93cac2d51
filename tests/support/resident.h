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
// mincore() writes a byte for each page. In qemu's user mode these are the pages of the machine that it runs on, which
// are smaller than those that the program is told of, where it is told of 16 or 64 KiB.
inline std::size_t resident_bytes(const std::byte* data, std::size_t bytes) {
  constexpr std::size_t kPageBytesMin = 4096;
  constexpr unsigned char kNotWritten = 0x80;
  std::vector<unsigned char> pages((bytes + kPageBytesMin - 1) / kPageBytesMin, kNotWritten);
  REQUIRE(::mincore(const_cast<std::byte*>(data), bytes, pages.data()) == 0);
  const auto is_present = [](unsigned char page) { return (page & 1) != 0; };
  const auto present = static_cast<std::size_t>(std::ranges::count_if(pages, is_present));
  const auto told = pages.size() - static_cast<std::size_t>(std::ranges::count(pages, kNotWritten));
  const std::size_t page_bytes = told * io::page_bytes() < bytes + io::page_bytes() ? io::page_bytes() : kPageBytesMin;
  return present * page_bytes;
}

}  // namespace headrace::test
