// SPDX-License-Identifier: Apache-2.0
// The arithmetic is torchvision's (transforms/transforms.py, functional.py), with Python's rounding: half to even.
#include "headrace/decode/transform.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace headrace::decode {
namespace {

using io::ErrorCode;
using io::make_error;

std::uint32_t rounded(double value) {
  return static_cast<std::uint32_t>(std::nearbyint(value));
}

RealBox real(const Box& box) {
  return {double(box.x), double(box.y), double(box.width), double(box.height)};
}

Box middle(Size image, Size size) {
  return {(image.width - size.width) / 2, (image.height - size.height) / 2, size.width, size.height};
}

// What RandomResizedCrop falls back to: as much of the middle as the range of shapes allows.
Box central_crop(const RandomResizedCrop& crop, Size image) {
  const double ratio = static_cast<double>(image.width) / image.height;
  Size size = image;
  if (ratio < crop.ratio_min) size.height = rounded(image.width / crop.ratio_min);
  if (ratio > crop.ratio_max) size.width = rounded(image.height * crop.ratio_max);
  return middle(image, {std::clamp(size.width, 1U, image.width), std::clamp(size.height, 1U, image.height)});
}

Box draw_crop(const RandomResizedCrop& crop, Size image, Random& random) {
  constexpr int kTries = 10;  // torchvision's number
  for (int i = 0; i < kTries; ++i) {
    const double area = static_cast<double>(image.pixels()) * random.uniform(crop.scale_min, crop.scale_max);
    const double ratio = std::exp(random.uniform(std::log(crop.ratio_min), std::log(crop.ratio_max)));
    const double width = std::nearbyint(std::sqrt(area * ratio));
    const double height = std::nearbyint(std::sqrt(area / ratio));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    Box box = {0, 0, static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(height)};
    box.y = random.below(image.height - box.height + 1);
    box.x = random.below(image.width - box.width + 1);
    return box;
  }
  return central_crop(crop, image);
}

CropPlan plan(const RandomResizedCrop& crop, Size image, Random& random) {
  return {.part = real(draw_crop(crop, image, random)), .target = crop.size};
}

CropPlan plan(const Resize& resize, Size image, Random&) {
  return {.part = real(whole(image)), .target = resize.size};
}

// One axis of a centre crop.
struct Middle {
  double begin;  // in the resized image
  std::uint32_t length;
  std::uint32_t target;  // where it stands in the output
};

Middle middle_of(std::uint32_t resized, std::uint32_t wanted) {
  if (resized >= wanted) return {std::nearbyint((resized - wanted) / 2.0), wanted, 0};
  return {0, resized, (wanted - resized) / 2};
}

CropPlan plan(const ResizeCenterCrop& crop, Size image, Random&) {
  const auto in_proportion = [&](std::uint32_t longer, std::uint32_t shorter) {
    const std::uint64_t side = std::uint64_t{crop.shorter_side} * longer / shorter;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(side, UINT32_MAX));  // an image of 1 x 10^8 is possible
  };
  Size resized = {crop.shorter_side, crop.shorter_side};
  if (image.width < image.height) resized.height = in_proportion(image.height, image.width);
  if (image.width > image.height) resized.width = in_proportion(image.width, image.height);
  const Middle x = middle_of(resized.width, crop.size.width);
  const Middle y = middle_of(resized.height, crop.size.height);
  const double scale_x = static_cast<double>(image.width) / resized.width;
  const double scale_y = static_cast<double>(image.height) / resized.height;
  return {.part = {x.begin * scale_x, y.begin * scale_y, x.length * scale_x, y.length * scale_y},
          .target = {x.length, y.length},
          .target_x = x.target,
          .target_y = y.target,
          .confined = false};
}

// One axis of a crop out of a padded image: what of the image it shows, and where.
struct Overlap {
  std::uint32_t begin;
  std::uint32_t length;
  std::uint32_t target;
};

Overlap draw_overlap(std::uint32_t image, std::uint32_t padding, std::uint32_t wanted, Random& random) {
  const std::uint32_t padded = image + 2 * padding;
  const std::uint32_t start = padded > wanted ? random.below(padded - wanted + 1) : 0;  // in the padded image
  const std::uint32_t begin = std::clamp(start, padding, padding + image);
  const std::uint32_t end = std::clamp(start + wanted, begin, padding + image);
  return {begin - padding, end - begin, begin - start};
}

CropPlan plan(const PadCrop& crop, Size image, Random& random) {
  const Overlap y = draw_overlap(image.height, crop.padding, crop.size.height, random);
  const Overlap x = draw_overlap(image.width, crop.padding, crop.size.width, random);
  return {.part = real({x.begin, y.begin, x.length, y.length}),
          .target = {x.length, y.length},
          .target_x = x.target,
          .target_y = y.target,
          .fill = crop.fill};
}

Status check_augment(const Augment& augment) {
  if (augment.bins < 2 || augment.bins > kAugmentBinsMax || augment.ops > kAugmentOpsMax ||
      augment.magnitude >= augment.bins) {
    return make_error(ErrorCode::kInvalidArgument, "an augmentation has 2 to " + std::to_string(kAugmentBinsMax) +
                                                       " magnitude bins, a magnitude below that "
                                                       "and 0 to " +
                                                       std::to_string(kAugmentOpsMax) + " operations");
  }
  return {};
}

bool in_order(double low, double high) {
  return low > 0 && low <= high;
}

Status check_size(Size size) {
  constexpr std::uint32_t kSideMax = 16'384;  // 800 MB per sample as float32: nobody trains on more
  if (size.width > 0 && size.height > 0 && size.width <= kSideMax && size.height <= kSideMax) return {};
  return make_error(ErrorCode::kInvalidArgument, "output size must be 1 to " + std::to_string(kSideMax) + " each way");
}

}  // namespace

Size output_size(const Geometry& geometry) {
  return std::visit([](const auto& kind) { return kind.size; }, geometry);
}

Status check(const Transform& transform) {
  if (Status size = check_size(output_size(transform.geometry)); !size) return size;
  if (!(transform.flip_probability >= 0 && transform.flip_probability <= 1)) {
    return make_error(ErrorCode::kInvalidArgument, "flip probability must be 0 to 1");
  }
  const auto* crop = std::get_if<RandomResizedCrop>(&transform.geometry);
  if (crop != nullptr && !(in_order(crop->scale_min, crop->scale_max) && in_order(crop->ratio_min, crop->ratio_max))) {
    return make_error(ErrorCode::kInvalidArgument, "crop scale and ratio need 0 < min <= max");
  }
  const auto* resize = std::get_if<ResizeCenterCrop>(&transform.geometry);
  if (resize != nullptr && resize->shorter_side == 0) {
    return make_error(ErrorCode::kInvalidArgument, "shorter side must not be 0");
  }
  const auto* padded = std::get_if<PadCrop>(&transform.geometry);
  if (padded != nullptr && padded->padding >= std::min(padded->size.width, padded->size.height)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "padding must be smaller than the crop, or a crop may miss the image");
  }
  if (transform.filter == Filter::kBicubic && !transform.antialias) {
    return make_error(ErrorCode::kInvalidArgument, "bicubic resizing has antialias, as PIL's");
  }
  if (transform.augment) HEADRACE_TRY_DO(check_augment(*transform.augment));
  if (!transform.jitter) return {};
  const ColorJitter& jitter = *transform.jitter;
  if (!(jitter.brightness >= 0 && jitter.contrast >= 0 && jitter.saturation >= 0 && jitter.hue >= 0 &&
        jitter.hue <= 0.5)) {
    return make_error(ErrorCode::kInvalidArgument, "colour jitter must not be negative, hue at most 0.5");
  }
  return {};
}

CropPlan plan_crop(const Transform& transform, Size image, Random& random) {
  CropPlan result = std::visit([&](const auto& kind) { return plan(kind, image, random); }, transform.geometry);
  result.mirror = transform.flip_probability > 0 && random.uniform() < transform.flip_probability;
  if (result.mirror) result.target_x = output_size(transform.geometry).width - result.target_x - result.target.width;
  return result;
}

}  // namespace headrace::decode
