// SPDX-License-Identifier: Apache-2.0
// What decode/ makes of a file, for compare_with_pil.py: "WIDTH HEIGHT" and a newline, then the raw bytes.
//
//   transform_tool decode FILE                       RGB as stored, no orientation
//   transform_tool resize FILE W H ANTIALIAS FILTER   0 or 1; bilinear or bicubic
//   transform_tool center FILE SHORTER_SIDE W H FILTER
//   transform_tool adjust FILE brightness|contrast|saturation|hue FACTOR
//   transform_tool augment FILE KIND STRENGTH         AugmentKind's number
//   transform_tool strengths BINS wide|rand W H       of each kind, a line of its bins, as text
//   transform_tool augments COUNT                     kind and strength that TrivialAugmentWide draws, as text
//   transform_tool tensor FILE float16|bfloat16|float32   NCHW, ImageNet's normalisation
//   transform_tool crops WIDTH HEIGHT COUNT          RandomResizedCrop's boxes for samples 0 to COUNT - 1, as text
//   transform_tool pad-crops SIZE PADDING COUNT      where PadCrop's boxes begin in the padded square, as text
//   transform_tool jitters BRIGHTNESS CONTRAST SATURATION HUE COUNT   order and factors of ColorJitter, as text
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "headrace/decode/augment.h"
#include "headrace/decode/color_jitter.h"
#include "headrace/decode/image_decoder.h"
#include "headrace/decode/sample_transformer.h"
#include "headrace/decode/tensor.h"

namespace {

using namespace headrace::decode;  // a program of one file
using Words = std::vector<std::string>;

[[noreturn]] void fail(const std::string& reason) {
  std::fprintf(stderr, "transform_tool: %s\n", reason.c_str());
  std::exit(1);
}

std::uint32_t number(const std::string& word) {
  return static_cast<std::uint32_t>(std::stoul(word));
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const auto* begin = reinterpret_cast<const std::byte*>(content.data());
  return {begin, begin + content.size()};
}

void print(Size size, const void* data, std::size_t bytes) {
  std::printf("%u %u\n", size.width, size.height);
  std::fwrite(data, 1, bytes, stdout);
}

void print(const Image& image) {
  print(image.size(), image.bytes().data(), image.bytes().size());
}

Image decode(const std::string& path) {
  ImageDecoder decoder({.apply_orientation = false});
  Image image;
  if (const Status status = decoder.decode(read_file(path), image); !status) fail(status.error().message());
  return image;
}

void transform(const std::string& path, const Transform& transform, const TensorFormat& format) {
  const TensorWriter writer(format);
  SampleTransformer transformer(transform, writer);
  ImageDecoder decoder({.apply_orientation = false});
  const Size size = output_size(transform.geometry);
  std::vector<std::byte> out(writer.sample_bytes(size));
  if (const Status status = transformer.decode(decoder, read_file(path), RandomKey{}); !status)
    fail(status.error().message());
  transformer.write(out.data());
  print(size, out.data(), out.size());
}

void adjust(const Words& words) {
  Image image = decode(words[1]);
  const double factor = std::stod(words[3]);
  if (words[2] == "brightness") adjust_brightness(image, factor);
  if (words[2] == "contrast") adjust_contrast(image, factor);
  if (words[2] == "saturation") adjust_saturation(image, factor);
  if (words[2] == "hue") adjust_hue(image, factor);
  print(image);
}

void print_augmented(const Words& words) {
  Image image = decode(words[1]);
  Image scratch;
  augment(static_cast<AugmentKind>(number(words[2])), std::stod(words[3]), image, scratch);
  print(image);
}

void print_strengths(const Words& words) {
  const bool wide = words[2] == "wide";
  const Augment augment = {.kind = wide ? Augment::Kind::kTrivialWide : Augment::Kind::kRand, .bins = number(words[1])};
  for (std::uint32_t kind = 0; kind < kAugmentKinds; ++kind) {
    for (std::uint32_t bin = 0; bin < augment.bins; ++bin) {
      const Size size = {number(words[3]), number(words[4])};
      std::printf("%.9g ", augment_strength(augment, static_cast<AugmentKind>(kind), bin, size));
    }
    std::printf("\n");
  }
}

void print_augments(std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    Random random({.seed = 1, .epoch = 0, .sample = i});
    const AugmentDraw draw = draw_augment({}, {224, 224}, random);
    std::printf("%d %.9g\n", static_cast<int>(draw.kind), draw.strength);
  }
}

Filter filter_named(const std::string& name) {
  return name == "bicubic" ? Filter::kBicubic : Filter::kBilinear;
}

ElementType type_named(const std::string& name) {
  if (name == "float16") return ElementType::kFloat16;
  if (name == "bfloat16") return ElementType::kBfloat16;
  return ElementType::kFloat32;
}

void print_crops(Size image, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    Random random({.seed = 1, .epoch = 0, .sample = i});
    const CropPlan plan = plan_crop({.flip_probability = 0.5}, image, random);
    std::printf("%.0f %.0f %.0f %.0f %d\n", plan.part.x, plan.part.y, plan.part.width, plan.part.height, plan.mirror);
  }
}

// A crop of the padded square's own size but for the padding of one side: it begins at 0 to 2 * `padding`.
void print_pad_crops(std::uint32_t size, std::uint32_t padding, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    Random random({.seed = 1, .epoch = 0, .sample = i});
    const CropPlan plan =
        plan_crop({.geometry = PadCrop{.size = {size, size}, .padding = padding}}, {size, size}, random);
    // Either the crop begins in the image, or so many pixels of the border come first.
    std::printf("%.0f %.0f\n", padding + plan.part.x - plan.target_x, padding + plan.part.y - plan.target_y);
  }
}

void print_jitters(const Words& words) {
  const ColorJitter jitter = {std::stod(words[1]), std::stod(words[2]), std::stod(words[3]), std::stod(words[4])};
  for (std::uint32_t i = 0; i < number(words[5]); ++i) {
    Random random({.seed = 1, .epoch = 0, .sample = i});
    const JitterDraw draw = draw_jitter(jitter, random);
    std::printf("%d%d%d%d %.9f %.9f %.9f %.9f\n", draw.order[0], draw.order[1], draw.order[2], draw.order[3],
                draw.brightness, draw.contrast, draw.saturation, draw.hue);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Words words(argv + 1, argv + argc);
  constexpr TensorFormat kPixels = {.type = ElementType::kUint8, .layout = Layout::kChannelsLast};
  if (words.size() < 2) fail("see the head of its source");
  if (words[0] == "decode") {
    print(decode(words[1]));
  } else if (words[0] == "resize") {
    const Resize geometry = {.size = {number(words[2]), number(words[3])}};
    const Filter filter = filter_named(words[5]);
    transform(words[1], {.geometry = geometry, .filter = filter, .antialias = words[4] == "1", .dct_scaling = false},
              kPixels);
  } else if (words[0] == "center") {
    const ResizeCenterCrop geometry = {number(words[2]), {number(words[3]), number(words[4])}};
    transform(words[1], {.geometry = geometry, .filter = filter_named(words[5]), .dct_scaling = false}, kPixels);
  } else if (words[0] == "adjust") {
    adjust(words);
  } else if (words[0] == "augment") {
    print_augmented(words);
  } else if (words[0] == "strengths") {
    print_strengths(words);
  } else if (words[0] == "augments") {
    print_augments(number(words[1]));
  } else if (words[0] == "tensor") {
    const Image image = decode(words[1]);
    const Transform whole_image = {.geometry = Resize{.size = image.size()}};
    transform(words[1], whole_image, {.type = type_named(words[2]), .normalise = kImageNet});
  } else if (words[0] == "crops") {
    print_crops({number(words[1]), number(words[2])}, number(words[3]));
  } else if (words[0] == "pad-crops") {
    print_pad_crops(number(words[1]), number(words[2]), number(words[3]));
  } else if (words[0] == "jitters") {
    print_jitters(words);
  } else {
    fail("unknown operation " + words[0]);
  }
}
