// SPDX-License-Identifier: Apache-2.0
// Numbers as packs have them: little-endian.
//
//   put<std::uint32_t>(bytes, 24, 4096);
#pragma once

#include <cstddef>
#include <string>

namespace headrace::test {

template <typename Number>
void put(std::string& bytes, std::size_t at, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) bytes[at + i] = static_cast<char>(number >> (8 * i));
}

}  // namespace headrace::test
