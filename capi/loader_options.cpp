// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "headrace/capi/internal/loader.h"
#include "headrace/io/log.h"

namespace headrace::capi {
namespace {

using decode::Geometry;
using io::ErrorCode;
using io::make_error;

// A training loop holds the batch before while it takes the next one; and one is kept for copying out of it.
constexpr std::uint64_t kBatchesLentDefault = 3;
constexpr std::uint64_t kBatchesAheadDefault = 2;
constexpr std::uint32_t kTorchWorkersMax = 1024;  // a generator of 2.5 kB each; no loader has as many processes
constexpr std::int32_t kThreadsMax = 4096;
constexpr std::uint32_t kFillMax = 255;            // a pixel's
constexpr std::uint32_t kAugmentBinsDefault = 31;  // torchvision's

// Every enumeration of the header counts from 0.
struct Bound {
  const char* name;
  std::int32_t value;
  std::int32_t last;
};

io::Status check_enumerations(const hr_loader_options& options) {
  const Bound bounds[] = {{"content", options.content, HR_CONTENT_JPEGS},
                          {"bad_samples", options.bad_samples, HR_BAD_ZERO},
                          {"damage", options.damage, HR_DAMAGE_SALVAGE},
                          {"geometry", options.geometry, HR_PAD_CROP},
                          {"element_type", options.element_type, HR_FLOAT32},
                          {"layout", options.layout, HR_CHANNELS_LAST},
                          {"draw", options.draw, HR_DRAW_AS_TORCH},
                          {"threads", options.threads, kThreadsMax},
                          {"interpolation", options.interpolation, HR_BICUBIC},
                          {"augment", options.augment, HR_RAND_AUGMENT}};
  for (const Bound& bound : bounds) {
    if (bound.value < 0 || bound.value > bound.last) {
      return make_error(ErrorCode::kInvalidArgument, std::string(bound.name) + " must be 0 to " +
                                                         std::to_string(bound.last) + ", not " +
                                                         std::to_string(bound.value));
    }
  }
  return {};
}

struct Number {
  const char* name;
  double value;
};

io::Status check_numbers(const hr_loader_options& options) {
  std::vector<Number> numbers = {{"scale_min", options.scale_min},   {"scale_max", options.scale_max},
                                 {"ratio_min", options.ratio_min},   {"ratio_max", options.ratio_max},
                                 {"brightness", options.brightness}, {"contrast", options.contrast},
                                 {"saturation", options.saturation}, {"hue", options.hue}};
  for (const double value : options.mean) numbers.push_back({"mean", value});
  for (const double value : options.standard_deviation) numbers.push_back({"standard_deviation", value});
  for (const Number& number : numbers) {
    if (!std::isfinite(number.value)) {
      return make_error(ErrorCode::kInvalidArgument, std::string(number.name) + " must be a finite number");
    }
  }
  return {};
}

// Before memory is taken for so many batches.
io::Status check_batches(const hr_loader_options& options) {
  if (options.batch_size == 0 || options.batch_size > decode::kBatchSizeMax) {
    return make_error(ErrorCode::kInvalidArgument, "batch_size must be 1 to " + std::to_string(decode::kBatchSizeMax) +
                                                       ", not " + std::to_string(options.batch_size));
  }
  if (options.batches_ahead > decode::kBatchesAheadMax) {
    return make_error(ErrorCode::kInvalidArgument, "batches ahead must be 0 to " +
                                                       std::to_string(decode::kBatchesAheadMax) + ", not " +
                                                       std::to_string(options.batches_ahead));
  }
  if (options.batches_lent > decode::kBatchesLentMax) {
    return make_error(ErrorCode::kInvalidArgument, "batches lent must be 0 to " +
                                                       std::to_string(decode::kBatchesLentMax) + ", not " +
                                                       std::to_string(options.batches_lent));
  }
  if (options.fill > kFillMax) {
    return make_error(ErrorCode::kInvalidArgument,
                      "fill must be 0 to " + std::to_string(kFillMax) + ", not " + std::to_string(options.fill));
  }
  return {};
}

io::Status check_torch(const hr_loader_options& options) {
  if (options.draw != HR_DRAW_AS_TORCH) return {};
  const bool jitters = options.brightness > 0 || options.contrast > 0 || options.saturation > 0 || options.hue > 0;
  if (options.geometry != HR_RANDOM_RESIZED_CROP || jitters || options.augment != HR_AUGMENT_NONE) {
    return make_error(ErrorCode::kInvalidArgument,
                      "torch's draws are known for RandomResizedCrop and RandomHorizontalFlip alone");
  }
  if (options.first_position != 0 || options.epochs != 1) {
    return make_error(ErrorCode::kInvalidArgument, "torch's draws begin with an epoch, and end with it");
  }
  if (options.torch_workers > kTorchWorkersMax) {
    return make_error(ErrorCode::kInvalidArgument, "torch_workers must be 0 to " + std::to_string(kTorchWorkersMax));
  }
  return {};
}

Geometry geometry_of(const hr_loader_options& options) {
  const decode::Size size = {options.width, options.height};
  switch (options.geometry) {
    case HR_RESIZE_CENTER_CROP:
      return decode::ResizeCenterCrop{.shorter_side = options.shorter_side, .size = size};
    case HR_RESIZE:
      return decode::Resize{.size = size};
    case HR_PAD_CROP:
      return decode::PadCrop{.size = size, .padding = options.padding, .fill = static_cast<std::uint8_t>(options.fill)};
    default:
      return decode::RandomResizedCrop{.size = size,
                                       .scale_min = options.scale_min,
                                       .scale_max = options.scale_max,
                                       .ratio_min = options.ratio_min,
                                       .ratio_max = options.ratio_max};
  }
}

decode::Transform transform_of(const hr_loader_options& options) {
  decode::Transform transform = {
      .geometry = geometry_of(options),
      .flip_probability = options.flip_probability,
      .filter = options.interpolation == HR_BICUBIC ? decode::Filter::kBicubic : decode::Filter::kBilinear,
      .antialias = options.no_antialias == 0,
      .dct_scaling = options.dct_scaling != 0};
  const decode::ColorJitter jitter = {options.brightness, options.contrast, options.saturation, options.hue};
  if (jitter.brightness != 0 || jitter.contrast != 0 || jitter.saturation != 0 || jitter.hue != 0) {
    transform.jitter = jitter;
  }
  if (options.augment != HR_AUGMENT_NONE) {
    transform.augment = {
        .kind = options.augment == HR_RAND_AUGMENT ? decode::Augment::Kind::kRand : decode::Augment::Kind::kTrivialWide,
        .bins = options.augment_bins == 0 ? kAugmentBinsDefault : options.augment_bins,
        .ops = options.augment_ops,
        .magnitude = options.augment_magnitude};
  }
  return transform;
}

decode::TensorFormat format_of(const hr_loader_options& options) {
  constexpr decode::ElementType kTypes[] = {decode::ElementType::kUint8, decode::ElementType::kFloat16,
                                            decode::ElementType::kBfloat16, decode::ElementType::kFloat32};
  decode::TensorFormat format = {
      .type = kTypes[options.element_type],
      .layout = options.layout == HR_CHANNELS_LAST ? decode::Layout::kChannelsLast : decode::Layout::kChannelsFirst};
  std::copy_n(options.mean, 3, format.normalise.mean.begin());
  const double* deviation = options.standard_deviation;
  if (std::any_of(deviation, deviation + 3, [](double value) { return value != 0; })) {
    std::copy_n(deviation, 3, format.normalise.standard_deviation.begin());
  }
  return format;
}

// Where they outlive this process; empty: in memory only.
std::filesystem::path crop_index_folder(const hr_loader_options& options) {
  if (options.content == HR_CONTENT_BYTES) return {};
  const io::Result<std::filesystem::path> folder = decode::own_crop_index_folder();
  if (folder) return *folder;
  io::log_warning("indexes of JPEGs are kept in memory only: {}", folder.error().message());
  return {};
}

// A batch of images that may be lent is filled ahead until it is; rows that move up (HR_BAD_SKIP) need one more.
// Batches of bytes have memory of their own each.
std::uint64_t ahead_beside_lent(const hr_loader_options& options, std::uint64_t lent) {
  const std::uint64_t ahead = options.batches_ahead == 0 ? kBatchesAheadDefault : options.batches_ahead;
  if (options.content == HR_CONTENT_BYTES) return ahead;
  const std::uint64_t least = options.bad_samples == HR_BAD_SKIP ? 1 : 0;
  return std::max(ahead + 1, lent + least) - lent;
}

}  // namespace

io::Status check(const hr_loader_options& options) {
  HEADRACE_TRY_DO(check_enumerations(options));
  if ((options.order == nullptr) == (options.indices == nullptr)) {
    return make_error(ErrorCode::kInvalidArgument, "a loader needs an order or indices, and not both");
  }
  if (options.indices != nullptr && options.epochs != 1) {
    return make_error(ErrorCode::kInvalidArgument, "indices are those of one epoch, so epochs must be 1");
  }
  if (options.reserved != 0) return make_error(ErrorCode::kInvalidArgument, "reserved must be 0");
  HEADRACE_TRY_DO(check_batches(options));
  HEADRACE_TRY_DO(check_numbers(options));
  for (const double deviation : options.standard_deviation) {
    const bool none = std::all_of(options.standard_deviation, options.standard_deviation + 3,
                                  [](double value) { return value == 0; });
    if (!(deviation > 0) && !none) {
      return make_error(ErrorCode::kInvalidArgument, "standard deviations must be above 0");
    }
  }
  return check_torch(options);
}

decode::BatchOptions batch_options(const hr_loader_options& options) {
  const std::uint64_t lent = options.batches_lent == 0 ? kBatchesLentDefault : options.batches_lent;
  constexpr decode::BadSamples kBad[] = {decode::BadSamples::kRaise, decode::BadSamples::kSkip,
                                         decode::BadSamples::kZero};
  constexpr decode::Damage kDamage[] = {decode::Damage::kRepair, decode::Damage::kReject, decode::Damage::kSalvage};
  return {
      .batch_size = options.batch_size,
      .drop_last = options.drop_last != 0,
      .bad_samples = kBad[options.bad_samples],
      .seed = options.seed,
      .transform = transform_of(options),
      .format = format_of(options),
      .workers = {.threads = static_cast<unsigned>(options.threads),
                  .decode = {.damage = kDamage[options.damage], .apply_orientation = options.apply_orientation != 0},
                  .crop_index_folder = crop_index_folder(options)},
      .decode_elsewhere = options.content == HR_CONTENT_JPEGS,
      .batches_ahead = ahead_beside_lent(options, lent),
      .batches_lent = lent};
}

Positions positions_of(const hr_loader_options& options) {
  return {.offset = options.position_offset, .stride = std::max<std::uint64_t>(options.position_stride, 1)};
}

}  // namespace headrace::capi
