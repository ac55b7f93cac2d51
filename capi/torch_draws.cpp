// SPDX-License-Identifier: Apache-2.0
#include "headrace/capi/internal/torch_draws.h"

#include <algorithm>
#include <cmath>

namespace headrace::capi {
namespace {

constexpr int kTries = 10;  // torchvision's

std::uint32_t rounded(double value) {
  return static_cast<std::uint32_t>(std::nearbyint(value));  // to even, as Python's round()
}

// What torchvision takes when no try fits: the middle, of the nearest shape that is allowed.
decode::Box middle(const decode::RandomResizedCrop& crop, decode::Size image) {
  std::uint32_t width = image.width;
  std::uint32_t height = image.height;
  const double ratio = static_cast<double>(width) / height;
  if (ratio < crop.ratio_min) height = rounded(width / crop.ratio_min);
  if (ratio > crop.ratio_max) width = rounded(height * crop.ratio_max);
  return {(image.width - width) / 2, (image.height - height) / 2, width, height};
}

}  // namespace

float TorchRandom::uniform(float low, float high) {
  const float unit = static_cast<float>(engine_() & 0xFFFFFF) * 0x1p-24F;
  return unit * (high - low) + low;
}

decode::Box draw_crop(const decode::RandomResizedCrop& crop, decode::Size image, TorchRandom& random) {
  const auto low = static_cast<float>(std::log(static_cast<float>(crop.ratio_min)));
  const auto high = static_cast<float>(std::log(static_cast<float>(crop.ratio_max)));
  const double area = static_cast<double>(image.width) * image.height;
  for (int i = 0; i < kTries; ++i) {
    const double target = area * random.uniform(static_cast<float>(crop.scale_min), static_cast<float>(crop.scale_max));
    const double ratio = static_cast<float>(std::exp(static_cast<double>(random.uniform(low, high))));
    const std::uint32_t width = rounded(std::sqrt(target * ratio));
    const std::uint32_t height = rounded(std::sqrt(target / ratio));
    if (width == 0 || width > image.width || height == 0 || height > image.height) continue;
    const std::uint32_t y = random.below(image.height - height + 1);
    const std::uint32_t x = random.below(image.width - width + 1);
    return {x, y, width, height};
  }
  return middle(crop, image);
}

TorchDraws::TorchDraws(const TorchDrawOptions& options)
    : options_(options), decoder_(std::make_unique<decode::ImageDecoder>(options.decode)) {
  for (std::uint32_t i = 0; i < std::max(options.workers, 1U); ++i) workers_.emplace_back(options.seed + i);
}

std::optional<decode::CropPlan> TorchDraws::plan(std::uint64_t position, std::span<const std::byte> bytes) {
  const io::Result<decode::Size> image = decoder_->open(bytes);
  if (!image) return std::nullopt;
  TorchRandom& random = workers_[position / options_.batch_size % workers_.size()];
  const decode::Box box = draw_crop(options_.crop, *image, random);
  decode::CropPlan plan = {.part = {static_cast<double>(box.x), static_cast<double>(box.y),
                                    static_cast<double>(box.width), static_cast<double>(box.height)},
                           .target = options_.crop.size};
  // RandomHorizontalFlip draws whatever its probability is; a transform without one does not.
  if (options_.flip_probability > 0) plan.mirror = random.uniform(0, 1) < static_cast<float>(options_.flip_probability);
  return plan;
}

}  // namespace headrace::capi
