// SPDX-License-Identifier: Apache-2.0
// A small random generator whose numbers are the same with every compiler and library (SplitMix64, Steele et al.,
// OOPSLA 2014). The distributions of the standard library differ between libraries.
#pragma once

#include <cstdint>

namespace headrace::cli {

class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // [0, 1)
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  double between(double low, double high) { return low + (high - low) * unit(); }
  // [0, bound); bound > 0. The bias of the modulo is far below what a picture shows.
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(next() % bound); }

 private:
  std::uint64_t state_;
};

}  // namespace headrace::cli
