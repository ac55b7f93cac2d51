// SPDX-License-Identifier: Apache-2.0
// Turns one encoded sample into one tensor. It decodes only the pixels that the transform needs, and resizes them as
// they come.
//
//   SampleTransformer transformer(transform, writer);
//   Status status = transformer.decode(decoder, bytes, {.seed = 1, .epoch = 0, .position = 5, .sample = 17});
//   if (status) transformer.write(destination);
//
// Or it leaves the decoding to others, and cuts out what they need:
//
//   EncodedPart part;
//   Status status = transformer.cut(decoder, bytes, key, part);
//
// Thread-safety: none; one per thread, reused.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

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

// A sample that is decoded elsewhere. What is resized to the target of its plan is `part` of the box.
struct EncodedPart {
  std::vector<std::byte> bytes;  // a JPEG; or the finished sample, where none could be cut out
  Box box;                       // the pixels of the JPEG that the filter may see; empty: the sample is finished
  RealBox part;
};

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
  // Instead of decode() and write(): what shows the same, resized only, in a JPEG of its own. Files that none can be
  // cut out of, damaged ones for instance, are decoded. Errors: as decode().
  template <typename KeyOrPlan>
  [[nodiscard]] Status cut(ImageDecoder& decoder, std::span<const std::byte> bytes, const KeyOrPlan& what,
                           EncodedPart& out);
  // Of the last decode() or cut() that went well.
  [[nodiscard]] ShownPart shown() const { return {image_size_, plan_}; }
  // Jitters and normalises what decode() got: writer.sample_bytes(output_size) bytes.
  void write(std::byte* out);

 private:
  Status open(ImageDecoder& decoder, std::span<const std::byte> bytes, const RandomKey& key);
  Status open(ImageDecoder& decoder, std::span<const std::byte> bytes, const CropPlan& plan);
  Status decode_plan(ImageDecoder& decoder);
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
