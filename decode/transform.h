// SPDX-License-Identifier: Apache-2.0
// What becomes of a decoded image: torchvision's transforms with their parameters and distributions.
//
//   Transform transform = {.geometry = RandomResizedCrop{.size = {224, 224}}, .flip_probability = 0.5};
//   Random random({.seed = 1, .epoch = 0, .position = 5, .sample = 17});
//   CropPlan plan = plan_crop(transform, {500, 375}, random);   // which pixels; no image needed yet
//
// Thread-safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "headrace/decode/image.h"
#include "headrace/decode/random.h"
#include "headrace/decode/resize.h"
#include "headrace/io/result.h"

namespace headrace::decode {

using io::Status;

// A random part of the image, of random area and shape, resized to `size`.
struct RandomResizedCrop {
  Size size = {224, 224};
  double scale_min = 0.08;  // of the image's area
  double scale_max = 1.0;
  double ratio_min = 3.0 / 4.0;  // width / height
  double ratio_max = 4.0 / 3.0;
};

// The shorter side resized to `shorter_side`, then `size` out of the middle. What lies outside of the image is black.
struct ResizeCenterCrop {
  std::uint32_t shorter_side = 256;
  Size size = {224, 224};
};

// The whole image, squeezed into `size`.
struct Resize {
  Size size = {224, 224};
};

// A random `size` out of the image with a border around it (CIFAR). The border is `fill`.
struct PadCrop {
  Size size = {32, 32};
  std::uint32_t padding = 4;  // on each side; less than the crop, so that every crop shows a part of the image
  std::uint8_t fill = 0;
};

using Geometry = std::variant<RandomResizedCrop, ResizeCenterCrop, Resize, PadCrop>;

// Each factor is drawn from [max(0, 1 - x), 1 + x], the hue's shift from [-hue, hue] turns; the four steps come in
// random order.
struct ColorJitter {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;  // at most 0.5
};

// torchvision's TrivialAugmentWide: one operation of 14, of random strength. Or RandAugment: `ops` of them, each of the
// strength `magnitude`. Strengths lie in `bins` steps.
struct Augment {
  enum class Kind : std::uint8_t { kTrivialWide, kRand };
  Kind kind = Kind::kTrivialWide;
  std::uint32_t bins = 31;
  std::uint32_t ops = 2;        // kRand; 0 to kAugmentOpsMax
  std::uint32_t magnitude = 9;  // kRand; below `bins`
};
inline constexpr std::uint32_t kAugmentBinsMax = 1000;  // more do not differ by a pixel
inline constexpr std::uint32_t kAugmentOpsMax = 16;     // nothing is left of an image by then

struct Transform {
  Geometry geometry = RandomResizedCrop{};
  double flip_probability = 0;  // left to right
  std::optional<ColorJitter> jitter;
  std::optional<Augment> augment;  // behind the jitter
  Filter filter = Filter::kBilinear;
  bool antialias = true;  // as PIL; false: as torchvision on tensors, two by two pixels whatever the reduction
  // Lets a JPEG's inverse DCT do the coarse part of a reduction by 2 or more. Faster; not the pixels that PIL gets.
  bool dct_scaling = true;
};

// The size of what comes out.
[[nodiscard]] Size output_size(const Geometry& geometry);
// Errors: kInvalidArgument: a size of zero, a range upside down, a probability outside of [0, 1], a padding that is not
// smaller than the crop, a bicubic filter without antialias, bins that an augmentation cannot have.
[[nodiscard]] Status check(const Transform& transform);

// Which pixels of the image the output shows, and where.
struct CropPlan {
  RealBox part;                // of the image; in whole pixels if `confined`
  Size target;                 // what `part` is resized to
  std::uint32_t target_x = 0;  // where it stands in the output; the rest is `fill`
  std::uint32_t target_y = 0;
  std::uint8_t fill = 0;
  bool confined = true;  // the filter sees only the pixels of `part`, as after torchvision's crop
  bool mirror = false;
};

// What a sample of a batch shows of its image: for the boxes and masks that go with it.
struct ShownPart {
  Size image;  // as it is stored, or upright where that is asked for; {0, 0}: a bad sample
  CropPlan plan;
};

[[nodiscard]] CropPlan plan_crop(const Transform& transform, Size image, Random& random);

}  // namespace headrace::decode
