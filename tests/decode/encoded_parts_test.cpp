// SPDX-License-Identifier: Apache-2.0
// Batches of parts of JPEGs: who decodes, resizes and mirrors them gets what a loader of pixels gives.
#include <algorithm>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/decode/batch_loader.h"
#include "headrace/io/log.h"

#include "decode/jpeg_files.h"
#include "decode/memory_source.h"
#include "decode/other_files.h"

namespace headrace::decode::encoded_parts_test {
namespace {

using Bytes = std::vector<std::byte>;

// Some can be cut, some cannot: four channels, progressive, to be turned, damaged but repairable, no image at all.
const test::Files& files() {
  static const test::Files all = [] {
    io::set_log_level(io::LogLevel::kError);  // bad samples are expected here
    test::Files made;
    for (unsigned i = 0; i < 9; ++i) {
      made.push_back(test::make_jpeg({.size = {90 + 7 * i, 140 - 9 * i},
                                      .horizontal_sampling = i % 2 == 0 ? 2 : 1,
                                      .vertical_sampling = i % 3 == 0 ? 2 : 1,
                                      .seed = i}));
    }
    made.push_back(test::make_jpeg({.color = test::JpegColor::kGrey}));
    made.push_back(test::make_jpeg({.color = test::JpegColor::kCmyk}));
    made.push_back(test::make_jpeg({.progressive = true}));
    made.push_back(test::with_orientation(made[1], 6));
    made.push_back(made[2]);
    made.back()[made.back().size() * 2 / 3] = std::byte{0xff};
    made.push_back(Bytes(500, std::byte{7}));
    return made;
  }();
  return all;
}
constexpr std::size_t kCut = 10;  // of these files; each one before the first that cannot be cut
constexpr std::size_t kBad = 1;

BatchOptions options_of(const Transform& transform) {
  return {.batch_size = 4,
          .bad_samples = BadSamples::kZero,
          .seed = 5,
          .transform = transform,
          .format = {.type = ElementType::kUint8, .layout = Layout::kChannelsLast},
          .workers = {.threads = 2, .decode = {.apply_orientation = true}}};
}

struct Sample {
  Bytes pixels;
  EncodedPart part;
  ShownPart shown;
  SampleState state;
};

std::vector<Sample> samples_of(const BatchOptions& options) {
  constexpr std::uint64_t kEpochs = 2;
  auto loader = BatchLoader::start(std::make_unique<test::MemorySource>(files(), kEpochs), options);
  REQUIRE(loader);
  std::vector<Sample> all;
  while (const Batch* batch = (*loader)->next()) {
    const std::size_t bytes = batch->data.size() / batch->labels.size();
    for (std::size_t i = 0; i < batch->labels.size(); ++i) {
      const auto pixels = batch->data.subspan(i * bytes, bytes);
      all.push_back({.pixels = {pixels.begin(), pixels.end()},
                     .part = options.decode_elsewhere ? batch->parts[i] : EncodedPart(),
                     .shown = batch->shown[i],
                     .state = batch->states[i]});
    }
  }
  REQUIRE((*loader)->status());
  return all;
}

// As another decoder would: the pixels of the box, resized; the rest of the sample is black.
Bytes decode_elsewhere(const Sample& sample, const Transform& transform) {
  const Size output = output_size(transform.geometry);
  if (sample.part.box.width == 0) {
    Bytes finished = sample.part.bytes;
    finished.resize(output.pixels() * Image::kChannels);
    return finished;
  }
  JpegDecoder decoder({.walk_scans = false});
  REQUIRE(decoder.open(sample.part.bytes));
  Image box;
  REQUIRE(decoder.decode(sample.part.box, 1, box));
  const CropPlan& plan = sample.shown.plan;
  Resizer resizer;
  Image resized;
  resizer.resize(box,
                 {.part = sample.part.part,
                  .target = plan.target,
                  .filter = transform.filter,
                  .antialias = transform.antialias,
                  .mirror = plan.mirror},
                 resized);
  Bytes all(output.pixels() * Image::kChannels);
  for (std::uint32_t y = 0; y < plan.target.height; ++y) {
    const std::size_t at = (std::size_t{plan.target_y + y} * output.width + plan.target_x) * Image::kChannels;
    std::copy_n(reinterpret_cast<const std::byte*>(resized.row(y)), resized.row_bytes(), &all[at]);
  }
  return all;
}

TEST_CASE("parts that are decoded elsewhere show what a loader of pixels gives") {
  const Transform transforms[] = {
      {.geometry = RandomResizedCrop{.size = {40, 32}}, .flip_probability = 0.5, .dct_scaling = false},
      {.geometry = ResizeCenterCrop{.shorter_side = 50, .size = {64, 44}}, .dct_scaling = false},
      {.geometry = Resize{.size = {31, 33}}, .filter = Filter::kBicubic, .dct_scaling = false}};
  for (const Transform& transform : transforms) {
    BatchOptions options = options_of(transform);
    const std::vector<Sample> pixels = samples_of(options);
    options.decode_elsewhere = true;
    const std::vector<Sample> parts = samples_of(options);
    REQUIRE(parts.size() == pixels.size());
    std::size_t cut = 0;
    std::size_t bad = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      CAPTURE(i);
      cut += parts[i].part.box.width > 0;
      bad += parts[i].part.bytes.empty();
      CHECK(parts[i].pixels.empty());
      CHECK(parts[i].state == pixels[i].state);
      CHECK(parts[i].shown.image == pixels[i].shown.image);
      CHECK(decode_elsewhere(parts[i], transform) == pixels[i].pixels);
    }
    CHECK(cut == 2 * kCut);
    CHECK(bad == 2 * kBad);
  }
}

TEST_CASE("where bad samples are skipped, parts move up as rows of pixels do") {
  BatchOptions options = options_of({.geometry = RandomResizedCrop{.size = {40, 32}}, .dct_scaling = false});
  options.bad_samples = BadSamples::kSkip;
  const std::vector<Sample> pixels = samples_of(options);
  options.decode_elsewhere = true;
  const std::vector<Sample> parts = samples_of(options);
  REQUIRE(parts.size() == 2 * (files().size() - kBad));
  REQUIRE(pixels.size() == parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CHECK(decode_elsewhere(parts[i], options.transform) == pixels[i].pixels);
  }
}

TEST_CASE("what changes colours is refused where samples are decoded elsewhere") {
  for (Transform transform : {Transform{.jitter = ColorJitter{.hue = 0.1}}, Transform{.augment = Augment()}}) {
    BatchOptions options = options_of(transform);
    options.decode_elsewhere = true;
    const auto loader = BatchLoader::start(std::make_unique<test::MemorySource>(files()), options);
    REQUIRE(!loader);
    CHECK(loader.error().code == io::ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace headrace::decode::encoded_parts_test
