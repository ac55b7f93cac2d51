// SPDX-License-Identifier: Apache-2.0
// Who takes the rows of an image as they are decoded, from the top. So a crop that is resized never lies in memory as
// a whole.
//
//   sink.begin({300, 200}, 300, 0);
//   for (int y = 0; y < 200; ++y) {
//     std::uint8_t* row = sink.line();
//     ...  // write the row
//     sink.take(row);
//   }
//
// Thread-safety: none.
#pragma once

#include <cstdint>

#include "headrace/decode/image.h"

namespace headrace::decode {

class RowSink {
 public:
  virtual ~RowSink() = default;
  // An image of `size` comes. Its rows may be parts of longer lines: of `line_width` pixels, from `first_column` on.
  // What came before is forgotten: a decoder may find out that it has to begin anew. Throws std::bad_alloc.
  virtual void begin(Size size, std::uint32_t line_width, std::uint32_t first_column) = 0;
  // Where the next line may be written.
  [[nodiscard]] virtual std::uint8_t* line() = 0;
  // The next row is there: in line(), from its first column on, or somewhere else, with Image::kSlackBytes behind it.
  // It is no longer needed after the call. Does not throw.
  virtual void take(const std::uint8_t* row) = 0;
};

// Fills an image, in whose memory the lines stay where they are written.
class ImageSink final : public RowSink {
 public:
  explicit ImageSink(Image& image) : image_(image) {}
  void begin(Size size, std::uint32_t line_width, std::uint32_t first_column) override {
    image_.reset_within_lines(size, line_width, first_column);
    next_ = 0;
  }
  [[nodiscard]] std::uint8_t* line() override { return image_.line(next_); }
  void take(const std::uint8_t* row) override {
    std::uint8_t* const place = image_.row(next_++);
    if (row != place) std::memcpy(place, row, image_.row_bytes());
  }

 private:
  Image& image_;
  std::uint32_t next_ = 0;
};

}  // namespace headrace::decode
