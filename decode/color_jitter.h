// SPDX-License-Identifier: Apache-2.0
// Random brightness, contrast, saturation and hue, with the arithmetic of PIL's ImageEnhance and HSV conversion.
//
//   adjust_brightness(image, 1.2);
//   apply_jitter({.brightness = 0.4, .hue = 0.1}, random, image);
//
// Thread-safety: pure functions.
#pragma once

#include <array>

#include "headrace/decode/image.h"
#include "headrace/decode/random.h"
#include "headrace/decode/transform.h"

namespace headrace::decode {

// A factor of 1 changes nothing; more exaggerates. 0 leaves black (brightness), the grey of the mean (contrast) or the
// grey of each pixel (saturation).
void adjust_brightness(Image& image, double factor);
void adjust_contrast(Image& image, double factor);
void adjust_saturation(Image& image, double factor);
// The same from the image smoothed by its neighbours (PIL's SMOOTH; the outermost pixels stay). Writes over `scratch`.
void adjust_sharpness(Image& image, double factor, Image& scratch);
// Turns the colour circle by `shift` turns, -0.5 to 0.5.
void adjust_hue(Image& image, double shift);

// The factors and the order that one image gets. In `order`, 0 is brightness, 1 contrast, 2 saturation, 3 hue, as
// torchvision numbers them.
struct JitterDraw {
  std::array<int, 4> order = {0, 1, 2, 3};
  double brightness = 1;
  double contrast = 1;
  double saturation = 1;
  double hue = 0;
};
[[nodiscard]] JitterDraw draw_jitter(const ColorJitter& jitter, Random& random);

// The steps with a parameter above 0, in random order.
void apply_jitter(const ColorJitter& jitter, Random& random, Image& image);

}  // namespace headrace::decode
