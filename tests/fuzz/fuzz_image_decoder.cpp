// SPDX-License-Identifier: Apache-2.0
// libFuzzer target over the whole way from bytes to tensor. By hand, for longer than the test has:
//   write_corpus corpus && fuzz_image_decoder -max_total_time=3600 corpus
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "headrace/decode/crop_indexes.h"
#include "headrace/decode/image_decoder.h"
#include "headrace/decode/sample_transformer.h"

#include "support/temp_dir.h"

namespace {

using namespace headrace::decode;  // a program of one file

const Transform kTransform = {.geometry = RandomResizedCrop{.size = {16, 16}}, .flip_probability = 0.5};

void transform(const DecodeOptions& options, std::span<const std::byte> bytes) {
  static const TensorWriter writer({.type = ElementType::kFloat16, .normalise = kImageNet});
  ImageDecoder decoder(options);
  Image image;
  if (decoder.decode(bytes, image).has_value() && image.size().pixels() > options.pixels_max) __builtin_trap();
  SampleTransformer transformer(kTransform, writer);
  std::vector<std::byte> tensor(writer.sample_bytes({16, 16}));
  if (transformer.decode(decoder, bytes, {.seed = bytes.size()})) transformer.write(tensor.data());
}

// Where progressive files are kept as baseline ones. Once it is full, further files go without.
CropIndexFolder* index_folder() {
  static const headrace::test::TempDir dir;
  static const auto folder = CropIndexFolder::open(dir.path(), std::uint64_t{1} << 30);
  if (!folder) __builtin_trap();
  return folder->get();
}

// libjpeg decides alone, or crops are decoded with an index: the same verdict and the same pixels. Twice, because the
// first crop makes the index.
void compare_crops(DecodeOptions options, std::span<const std::byte> bytes) {
  static CropIndexes indexes(std::size_t{16} << 20, index_folder());
  ImageDecoder walked(options);
  walked.use_indexes(indexes);
  options.walk_scans = false;
  ImageDecoder plain(options);
  const auto size = plain.open(bytes);
  if (!size) return;
  const Box box = {size->width / 3, size->height / 2, (size->width + 2) / 3, (size->height + 3) / 4};
  Image expected;
  const Status verdict = plain.decode_region(box, 1, expected);
  for (int round = 0; round < 2; ++round) {
    Image image;
    if (!walked.open(bytes)) __builtin_trap();
    const Status status = walked.decode_region(box, 1, image);
    if (status.has_value() != verdict.has_value() || walked.damage() != plain.damage()) __builtin_trap();
    for (std::uint32_t y = 0; status.has_value() && y < box.height; ++y) {
      if (std::memcmp(image.row(y), expected.row(y), expected.row_bytes()) != 0) __builtin_trap();
    }
  }
}

// A part that is cut out of a JPEG is a sound file, with the pixels that libjpeg finds there in the whole one.
void compare_parts(DecodeOptions options, std::span<const std::byte> bytes) {
  static CropIndexes indexes(0, index_folder());
  JpegDecoder walked(options);
  walked.use_indexes(indexes);
  options.walk_scans = false;
  JpegDecoder plain(options);
  const auto header = walked.open(bytes);
  if (!header) return;
  const Size size = header->size;
  const Box box = {size.width / 3, size.height / 2, (size.width + 2) / 3, (size.height + 3) / 4};
  const auto part = walked.splice(box);
  if (!part) return;
  Image image;
  const auto part_header = plain.open(part->bytes);
  if (!part_header || !contains(part_header->size, part->box) || part->box.size() != box.size()) __builtin_trap();
  if (!plain.decode(part->box, 1, image) || !plain.damage().empty()) __builtin_trap();
  Image expected;
  if (!plain.open(bytes) || !plain.decode(box, 1, expected) || !plain.damage().empty()) return;
  for (std::uint32_t y = 0; y < box.height; ++y) {
    if (std::memcmp(image.row(y), expected.row(y), expected.row_bytes()) != 0) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  transform({.apply_orientation = true, .cifar_records = true, .pixels_max = 1'000'000, .scans_max = 20}, bytes);
  transform({.damage = Damage::kSalvage, .pixels_max = 1'000'000, .scans_max = 20}, bytes);
  compare_crops({.pixels_max = 1'000'000, .scans_max = 20}, bytes);
  compare_parts({.pixels_max = 1'000'000, .scans_max = 20}, bytes);
  return 0;
}
