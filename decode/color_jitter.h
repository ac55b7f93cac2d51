// SPDX-License-Identifier: Apache-2.0
// Random brightness, contrast, saturation and hue, with the arithmetic of PIL's ImageEnhance and HSV conversion.
//
//   adjust_brightness(image, 1.2);
//   apply_jitter({.brightness = 0.4, .hue = 0.1}, random, image);
//
// Thread-safety: pure functions.
#pragma once

#include "headrace/decode/image.h"
#include "headrace/decode/random.h"
#include "headrace/decode/transform.h"

namespace headrace::decode {

// 0: black, grey of the mean, grey of each pixel; 1: unchanged; more: exaggerated.
void adjust_brightness(Image& image, double factor);
void adjust_contrast(Image& image, double factor);
void adjust_saturation(Image& image, double factor);
// Turns the colour circle by `shift` turns, -0.5 to 0.5.
void adjust_hue(Image& image, double shift);

// The steps with a parameter above 0, in random order.
void apply_jitter(const ColorJitter& jitter, Random& random, Image& image);

}  // namespace headrace::decode
