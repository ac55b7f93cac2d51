// SPDX-License-Identifier: Apache-2.0
// Where the coefficients of a block lie that a JPEG has in zigzag order (ITU-T T.81, figure A.6).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace headrace::decode {

// What damaged codes put behind the last one goes to the last one: such a block is refused once it is complete.
inline constexpr std::array<std::uint8_t, 64 + 32> kNaturalOrder = [] {
  std::array<std::uint8_t, 64 + 32> order = {};
  std::size_t place = 0;
  for (unsigned diagonal = 0; diagonal < 15; ++diagonal) {
    for (unsigned step = 0; step <= diagonal; ++step) {
      const unsigned row = diagonal % 2 == 0 ? diagonal - step : step;
      if (row < 8 && diagonal - row < 8) order[place++] = static_cast<std::uint8_t>(row * 8 + diagonal - row);
    }
  }
  while (place < order.size()) order[place++] = 63;
  return order;
}();

}  // namespace headrace::decode
