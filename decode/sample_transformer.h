// SPDX-License-Identifier: Apache-2.0
// Turns one encoded sample into one tensor. It decodes only the pixels that the transform needs, and resizes them as
// they come.
//
//   SampleTransformer transformer(transform, writer);
//   Status status = transformer.decode(decoder, bytes, {.seed = 1, .epoch = 0, .position = 5, .sample = 17});
//   if (status) transformer.write(destination);
//
// Thread-safety: none; one per thread, reused.
#pragma once

#include <cstddef>
#include <span>

#include "headrace/decode/image.h"
#include "headrace/decode/image_decoder.h"
#include "headrace/decode/random.h"
#include "headrace/decode/resize.h"
#include "headrace/decode/tensor.h"
#include "headrace/decode/transform.h"

namespace headrace::decode {

// What to decode of an image for a plan, and where the plan's part lies in that.
struct DecodeRegion {
  std::uint32_t reduce = 1;
  Box box;       // of the reduced image
  RealBox part;  // of the box
};
[[nodiscard]] DecodeRegion region_for(const CropPlan& plan, Size image, std::uint32_t reduce_max,
                                      Filter filter = Filter::kBilinear);

class SampleTransformer {
 public:
  // Both outlive the object. `transform` has passed check().
  SampleTransformer(const Transform& transform, const TensorWriter& writer)
      : transform_(transform), writer_(writer), random_({}) {}

  // Errors: as ImageDecoder. Throws std::bad_alloc.
  [[nodiscard]] Status decode(ImageDecoder& decoder, std::span<const std::byte> bytes, const RandomKey& key);
  // The same with a crop that was planned elsewhere, whose target lies within the output; colour jitter then draws what
  // sample 0 of epoch 0 draws.
  [[nodiscard]] Status decode(ImageDecoder& decoder, std::span<const std::byte> bytes, const CropPlan& plan);
  // Of the last decode() that went well.
  [[nodiscard]] ShownPart shown() const { return {image_size_, plan_}; }
  // Jitters and normalises what decode() got: writer.sample_bytes(output_size) bytes.
  void write(std::byte* out);

 private:
  Status decode_plan(ImageDecoder& decoder, Size image);
  void place_on_canvas();

  const Transform& transform_;
  const TensorWriter& writer_;
  Random random_;
  Size image_size_;
  CropPlan plan_;
  DecodeRegion region_;
  Resizer resizer_;
  Image resized_;
  Image canvas_;  // resized_ with what the image does not cover
};

}  // namespace headrace::decode
