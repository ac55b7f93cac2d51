// SPDX-License-Identifier: Apache-2.0
// libFuzzer target over the whole way from bytes to tensor. By hand, for longer than the test has:
//   write_corpus corpus && fuzz_image_decoder -max_total_time=3600 corpus
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "headrace/decode/image_decoder.h"
#include "headrace/decode/sample_transformer.h"

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  transform({.apply_orientation = true, .cifar_records = true, .pixels_max = 1'000'000, .scans_max = 20}, bytes);
  transform({.damage = Damage::kSalvage, .pixels_max = 1'000'000, .scans_max = 20}, bytes);
  return 0;
}
