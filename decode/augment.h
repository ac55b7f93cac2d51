// SPDX-License-Identifier: Apache-2.0
// torchvision's TrivialAugmentWide and RandAugment on 8-bit pixels: PIL's pixels for the same operation and strength,
// by the nearest neighbour and with black where nothing is.
//
//   augment(AugmentKind::kRotate, 30, image, scratch);
//   apply_augment({.bins = 31}, random, image, scratch);   // one operation of random strength
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "headrace/decode/image.h"
#include "headrace/decode/random.h"
#include "headrace/decode/transform.h"

namespace headrace::decode {

// In torchvision's sequence.
enum class AugmentKind : std::uint8_t {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
};
inline constexpr std::uint32_t kAugmentKinds = 14;

// Strengths are torchvision's: columns per row, pixels, degrees, what is added to a factor of 1, bits, a threshold.
// `scratch` is written over.
void augment(AugmentKind kind, double strength, Image& image, Image& scratch);

// The strength of a bin, without its sign, for an image of that size: the exact one, rounded to float as torch's is,
// whose last bit differs from machine to machine.
[[nodiscard]] double augment_strength(const Augment& augment, AugmentKind kind, std::uint32_t bin, Size size);

// One operation: its kind, its bin and its sign are drawn, in this sequence, used or not.
struct AugmentDraw {
  AugmentKind kind = AugmentKind::kIdentity;
  double strength = 0;
};
[[nodiscard]] AugmentDraw draw_augment(const Augment& augment, Size size, Random& random);

void apply_augment(const Augment& augment, Random& random, Image& image, Image& scratch);

}  // namespace headrace::decode
