// SPDX-License-Identifier: Apache-2.0
// Decodes a list of JPEG files that lie in memory, on one thread.
//
//   decode_images WORK ROOT LIST [--passes N] [--crops FILE]
//
// WORK is what to do with each file:
//   full       headrace's decoder, whole image to RGB
//   libjpeg    the same by a plain libjpeg-turbo loop
//   rrc        headrace: RandomResizedCrop(224), flip, normalise, float16 NCHW
// LIST has one path relative to ROOT per line. --crops writes what `rrc` draws: a line "x y width height mirror" per
// file. The checksum is the sum of XXH3 over each RGB image, from one more pass that is not timed. Prints one JSON
// line.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <xxhash.h>

#include "headrace/decode/image_decoder.h"
#include "headrace/decode/sample_transformer.h"
#include "headrace/decode/tensor.h"

// After <cstdio>, which it uses without including it.
#include <jpeglib.h>

namespace {

using namespace headrace::decode;  // a program of one file

using File = std::vector<std::byte>;
using Work = std::function<std::span<const std::uint8_t>(std::size_t index, const File& file)>;

[[noreturn]] void fail(const std::string& reason) {
  std::fprintf(stderr, "decode_images: %s\n", reason.c_str());
  std::exit(1);
}

File read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream || content.empty()) fail("cannot read " + path);
  const auto* bytes = reinterpret_cast<const std::byte*>(content.data());
  return {bytes, bytes + content.size()};
}

std::vector<File> read_files(const std::string& root, const std::string& list) {
  std::vector<File> files;
  std::ifstream lines(list);
  for (std::string line; std::getline(lines, line);) files.push_back(read_file(root + "/" + line));
  if (files.empty()) fail("nothing listed in " + list);
  return files;
}

// The other side: what a program that uses libjpeg-turbo directly does.
class PlainLibjpeg {
 public:
  PlainLibjpeg() {
    info_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&info_);
  }
  ~PlainLibjpeg() { jpeg_destroy_decompress(&info_); }
  PlainLibjpeg(const PlainLibjpeg&) = delete;
  PlainLibjpeg& operator=(const PlainLibjpeg&) = delete;

  std::span<const std::uint8_t> decode(const File& file) {
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&info_, TRUE);
    info_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info_);
    const std::size_t row_bytes = std::size_t{info_.output_width} * 3;
    if (pixels_.size() < row_bytes * info_.output_height) pixels_.resize(row_bytes * info_.output_height);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels_.data() + info_.output_scanline * row_bytes;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return {pixels_.data(), row_bytes * info_.output_height};
  }

 private:
  jpeg_decompress_struct info_ = {};
  jpeg_error_mgr errors_ = {};
  std::vector<std::uint8_t> pixels_;
};

class FullDecode {
 public:
  std::span<const std::uint8_t> decode(const File& file) {
    if (auto status = decoder_.decode(file, image_); !status) fail(status.error().message());
    return image_.bytes();
  }

 private:
  // As PIL and libjpeg: the image as it is stored.
  ImageDecoder decoder_ = ImageDecoder(DecodeOptions{.apply_orientation = false});
  Image image_;
};

// The crops that the other side gets too: DCT scaling stays off, so that both resize the same pixels.
class RandomCrop {
 public:
  std::span<const std::uint8_t> decode(std::size_t index, const File& file) {
    const RandomKey key = {.seed = 1, .epoch = 0, .sample = static_cast<std::uint32_t>(index)};
    if (auto status = transformer_.decode(decoder_, file, key); !status) fail(status.error().message());
    transformer_.write(reinterpret_cast<std::byte*>(tensor_.data()));
    return {reinterpret_cast<const std::uint8_t*>(tensor_.data()), tensor_.size() * 2};
  }
  [[nodiscard]] const CropPlan& plan() const { return transformer_.plan(); }

 private:
  const Transform transform_ = {.geometry = RandomResizedCrop{}, .flip_probability = 0.5};
  const TensorWriter writer_ = TensorWriter({.type = ElementType::kFloat16, .normalise = kImageNet});
  ImageDecoder decoder_ = ImageDecoder(DecodeOptions{.apply_orientation = false});
  SampleTransformer transformer_ = SampleTransformer(transform_, writer_);
  std::vector<std::uint16_t> tensor_ = std::vector<std::uint16_t>(std::size_t{224} * 224 * 3);
};

double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void measure(const std::vector<File>& files, unsigned passes, const Work& work) {
  std::uint64_t checksum = 0;  // this pass also warms up
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::span<const std::uint8_t> result = work(i, files[i]);
    checksum += XXH3_64bits(result.data(), result.size());
    bytes += files[i].size() * passes;
  }
  const double cpu_before = cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  for (unsigned pass = 0; pass < passes; ++pass) {
    for (std::size_t i = 0; i < files.size(); ++i) work(i, files[i]);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("{\"samples\": %zu, \"bytes\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"xxh3\": \"%016llx\"}\n",
              files.size() * passes, static_cast<unsigned long long>(bytes), seconds, cpu_seconds() - cpu_before,
              static_cast<unsigned long long>(checksum));
}

void write_crops(const std::vector<File>& files, const std::string& path) {
  std::ofstream out(path);
  RandomCrop crop;
  for (std::size_t i = 0; i < files.size(); ++i) {
    crop.decode(i, files[i]);
    const CropPlan& plan = crop.plan();
    out << plan.part.x << ' ' << plan.part.y << ' ' << plan.part.width << ' ' << plan.part.height << ' ' << plan.mirror
        << '\n';
  }
  if (!out.flush()) fail("cannot write " + path);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 3 || arguments.size() % 2 == 0) fail("usage: WORK ROOT LIST [--passes N] [--crops FILE]");
  unsigned passes = 1;
  std::string crops;
  for (std::size_t i = 3; i < arguments.size(); i += 2) {
    if (arguments[i] == "--passes") {
      passes = static_cast<unsigned>(std::stoul(arguments[i + 1]));
    } else if (arguments[i] == "--crops") {
      crops = arguments[i + 1];
    } else {
      fail("unknown option " + arguments[i]);
    }
  }
  const std::vector<File> files = read_files(arguments[1], arguments[2]);
  if (!crops.empty()) write_crops(files, crops);
  PlainLibjpeg libjpeg;
  FullDecode full;
  RandomCrop crop;
  if (arguments[0] == "libjpeg") {
    measure(files, passes, [&](std::size_t, const File& file) { return libjpeg.decode(file); });
  } else if (arguments[0] == "full") {
    measure(files, passes, [&](std::size_t, const File& file) { return full.decode(file); });
  } else if (arguments[0] == "rrc") {
    measure(files, passes, [&](std::size_t i, const File& file) { return crop.decode(i, file); });
  } else {
    fail("unknown work " + arguments[0]);
  }
}
