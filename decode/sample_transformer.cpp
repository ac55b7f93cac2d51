// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/sample_transformer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "headrace/decode/augment.h"
#include "headrace/decode/color_jitter.h"

namespace headrace::decode {
namespace {

// The inverse DCT may leave out half of the image's resolution, or more, while enough is left for the target.
std::uint32_t choose_reduce(const CropPlan& plan, std::uint32_t reduce_max) {
  std::uint32_t reduce = reduce_max;
  while (reduce > 1 && (plan.part.width < double(plan.target.width) * reduce ||
                        plan.part.height < double(plan.target.height) * reduce)) {
    reduce /= 2;
  }
  return reduce;
}

struct Interval {
  std::uint32_t begin;
  std::uint32_t length;
};

// The pixels that resizing [begin, begin + extent) to `target` pixels looks at.
Interval pixels_for(double begin, double extent, std::uint32_t target, double filter_reach, std::uint32_t count) {
  const double reach = filter_reach * std::max(1.0, extent / target);
  const double low = std::clamp(std::floor(begin - reach), 0.0, count - 1.0);
  const double high = std::clamp(std::ceil(begin + extent + reach), low + 1, static_cast<double>(count));
  return {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(high - low)};
}

}  // namespace

DecodeRegion region_for(const CropPlan& plan, Size image, std::uint32_t reduce_max, Filter filter) {
  DecodeRegion region;
  const double reach = plan.confined ? 0 : reach_of(filter);
  region.reduce = choose_reduce(plan, reduce_max);
  const Size size = reduced(image, region.reduce);
  const double factor = 1.0 / region.reduce;
  RealBox& part = region.part;
  part = {plan.part.x * factor, plan.part.y * factor, plan.part.width * factor, plan.part.height * factor};
  const Interval columns = pixels_for(part.x, part.width, plan.target.width, reach, size.width);
  const Interval rows = pixels_for(part.y, part.height, plan.target.height, reach, size.height);
  region.box = {columns.begin, rows.begin, columns.length, rows.length};
  part.x -= columns.begin;
  part.y -= rows.begin;
  return region;
}

Status SampleTransformer::open(ImageDecoder& decoder, std::span<const std::byte> bytes, const RandomKey& key) {
  HEADRACE_TRY(size, decoder.open(bytes));
  image_size_ = size;
  random_ = Random(key);
  plan_ = plan_crop(transform_, size, random_);
  return {};
}

Status SampleTransformer::open(ImageDecoder& decoder, std::span<const std::byte> bytes, const CropPlan& plan) {
  HEADRACE_TRY(size, decoder.open(bytes));
  image_size_ = size;
  random_ = Random({});
  plan_ = plan;
  return {};
}

Status SampleTransformer::decode(ImageDecoder& decoder, std::span<const std::byte> bytes, const RandomKey& key) {
  HEADRACE_TRY_DO(open(decoder, bytes, key));
  return decode_plan(decoder);
}

Status SampleTransformer::decode(ImageDecoder& decoder, std::span<const std::byte> bytes, const CropPlan& plan) {
  HEADRACE_TRY_DO(open(decoder, bytes, plan));
  return decode_plan(decoder);
}

template <typename KeyOrPlan>
Status SampleTransformer::cut(ImageDecoder& decoder, std::span<const std::byte> bytes, const KeyOrPlan& what,
                              EncodedPart& out) {
  HEADRACE_TRY_DO(open(decoder, bytes, what));
  const DecodeRegion region = region_for(plan_, image_size_, 1, transform_.filter);
  if (Result<SplicedJpeg> spliced = decoder.splice(region.box)) {
    out = {std::move(spliced->bytes), spliced->box, region.part};
    return {};
  }
  HEADRACE_TRY_DO(decode(decoder, bytes, what));
  out = {std::vector<std::byte>(writer_.sample_bytes(output_size(transform_.geometry))), {}, {}};
  write(out.bytes.data());
  return {};
}
template Status SampleTransformer::cut(ImageDecoder&, std::span<const std::byte>, const RandomKey&, EncodedPart&);
template Status SampleTransformer::cut(ImageDecoder&, std::span<const std::byte>, const CropPlan&, EncodedPart&);

Status SampleTransformer::decode_plan(ImageDecoder& decoder) {
  const Size output = output_size(transform_.geometry);
  HEADRACE_ASSERT(contains(output, {plan_.target_x, plan_.target_y, plan_.target.width, plan_.target.height}));
  region_ = region_for(plan_, image_size_, transform_.dct_scaling ? decoder.reduce_max() : 1, transform_.filter);
  const ResizeSpec spec = {.part = region_.part,
                           .target = plan_.target,
                           .filter = transform_.filter,
                           .antialias = transform_.antialias,
                           .mirror = plan_.mirror};
  resizer_.resize_rows_to(resized_, spec);
  return decoder.decode_region(region_.box, region_.reduce, resizer_);
}

void SampleTransformer::place_on_canvas() {
  const Size size = output_size(transform_.geometry);
  if (plan_.target == size) return std::swap(canvas_, resized_);
  canvas_.reset(size);
  std::ranges::fill(canvas_.bytes(), plan_.fill);
  for (std::uint32_t y = 0; y < plan_.target.height; ++y) {
    std::memcpy(canvas_.row(plan_.target_y + y) + std::size_t{plan_.target_x} * Image::kChannels, resized_.row(y),
                resized_.row_bytes());
  }
}

void SampleTransformer::write(std::byte* out) {
  place_on_canvas();
  if (transform_.jitter) apply_jitter(*transform_.jitter, random_, canvas_);
  if (transform_.augment) apply_augment(*transform_.augment, random_, canvas_, resized_);
  writer_.write(canvas_, out);
}

}  // namespace headrace::decode
