// SPDX-License-Identifier: Apache-2.0
// An array of numbers that takes as many bytes of each as the largest one needs.
//
//   PackedNumbers lengths;
//   lengths.push_back(300);          // two bytes each from here on
//   std::uint64_t first = lengths[0];
//
// Thread-safety: as a vector. Memory: 1 to 8 bytes a number; push_back() of one that needs more makes all anew, seven
// times at most.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace headrace::cache {

class PackedNumbers {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  // Precondition: at < size().
  [[nodiscard]] std::uint64_t operator[](std::size_t at) const {
    std::uint64_t number = 0;
    std::memcpy(&number, bytes_.data() + at * width_, sizeof(number));
    return number & mask_;
  }
  void push_back(std::uint64_t number) {
    if (number > mask_) widen(number);
    bytes_.resize((size_ + 1) * width_ + kMore);
    std::memcpy(bytes_.data() + size_ * width_, &number, sizeof(number));
    ++size_;
  }
  [[nodiscard]] std::uint64_t memory_bytes() const { return bytes_.size(); }

 private:
  static_assert(std::endian::native == std::endian::little, "the low bytes of a number come first");
  // Eight bytes are read and written wherever a number lies.
  static constexpr std::size_t kMore = sizeof(std::uint64_t) - 1;

  void widen(std::uint64_t number) {
    PackedNumbers wider;
    wider.width_ = (static_cast<std::size_t>(std::bit_width(number)) + 7) / 8;
    wider.mask_ = UINT64_MAX >> (64 - 8 * wider.width_);
    wider.bytes_.reserve((size_ + 1) * wider.width_ + kMore);
    for (std::size_t at = 0; at < size_; ++at) wider.push_back((*this)[at]);
    *this = std::move(wider);
  }

  std::vector<std::uint8_t> bytes_;
  std::size_t size_ = 0;
  std::size_t width_ = 1;
  std::uint64_t mask_ = UINT8_MAX;
};

}  // namespace headrace::cache
