// SPDX-License-Identifier: Apache-2.0
// Pixels in memory: 8 bits per channel, channels interleaved.
//
//   Image image;
//   image.reset({.width = 500, .height = 375});   // content undefined
//   std::uint8_t* third_row = image.row(2);
//
// Rows follow each other without padding, unless the image is a part of longer lines (reset_within_lines).
//
// Thread-safety: as a plain value. Ownership: move-only; the memory goes with it and is kept across reset().
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "headrace/io/result.h"

namespace headrace::decode {

struct Size {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  friend bool operator==(const Size&, const Size&) = default;
  [[nodiscard]] std::uint64_t pixels() const { return std::uint64_t{width} * height; }
};

// A rectangle of whole pixels; (0, 0) is the top left corner.
struct Box {
  std::uint32_t x = 0;
  std::uint32_t y = 0;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  friend bool operator==(const Box&, const Box&) = default;
  [[nodiscard]] Size size() const { return {width, height}; }
};

[[nodiscard]] inline Box whole(Size size) {
  return {0, 0, size.width, size.height};
}
[[nodiscard]] inline bool contains(Size size, const Box& box) {
  return box.width > 0 && box.height > 0 && box.x <= size.width && box.width <= size.width - box.x &&
         box.y <= size.height && box.height <= size.height - box.y;
}

class Image {
 public:
  static constexpr std::uint32_t kChannels = 3;  // RGB
  // Readable bytes behind the last pixel, so that kernels may load whole vectors. They are zero: what kernels load
  // there does not count, but a checker of memory cannot know that.
  static constexpr std::size_t kSlackBytes = 64;

  // Makes room for `size`; memory grows, never shrinks. Throws std::bad_alloc.
  void reset(Size size) { reset_within_lines(size, size.width, 0); }

  // The same for an image that is cut out of lines of `line_width` pixels, from `first_column` of each on. The lines
  // are in memory in full, so that a decoder can write them where they stay.
  void reset_within_lines(Size size, std::uint32_t line_width, std::uint32_t first_column) {
    HEADRACE_ASSERT(std::uint64_t{first_column} + size.width <= line_width);
    const std::size_t bytes = std::size_t{line_width} * size.height * kChannels + kSlackBytes;
    if (bytes > capacity_) {
      data_.reset();  // first, so that both never live at once
      capacity_ = 0;
      data_ = std::make_unique_for_overwrite<std::uint8_t[]>(bytes);
      capacity_ = bytes;
    }
    std::memset(data_.get() + bytes - kSlackBytes, 0, kSlackBytes);
    size_ = size;
    line_bytes_ = std::size_t{line_width} * kChannels;
    first_byte_ = std::size_t{first_column} * kChannels;
  }

  [[nodiscard]] Size size() const { return size_; }
  [[nodiscard]] std::size_t row_bytes() const { return std::size_t{size_.width} * kChannels; }
  [[nodiscard]] std::uint8_t* row(std::size_t y) { return line(y) + first_byte_; }
  [[nodiscard]] const std::uint8_t* row(std::size_t y) const { return data_.get() + y * line_bytes_ + first_byte_; }
  // The whole line that a row is a part of.
  [[nodiscard]] std::uint8_t* line(std::size_t y) { return data_.get() + y * line_bytes_; }
  // All rows. Not for a part of longer lines, whose rows do not follow each other.
  [[nodiscard]] std::span<std::uint8_t> bytes() { return {data_.get(), all_rows_bytes()}; }
  [[nodiscard]] std::span<const std::uint8_t> bytes() const { return {data_.get(), all_rows_bytes()}; }

 private:
  [[nodiscard]] std::size_t all_rows_bytes() const {
    HEADRACE_ASSERT(line_bytes_ == row_bytes());
    return row_bytes() * size_.height;
  }

  std::unique_ptr<std::uint8_t[]> data_;
  std::size_t capacity_ = 0;
  Size size_;
  std::size_t line_bytes_ = 0;
  std::size_t first_byte_ = 0;  // of a row in its line
};

}  // namespace headrace::decode
