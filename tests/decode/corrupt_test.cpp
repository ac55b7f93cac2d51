// SPDX-License-Identifier: Apache-2.0
// Damaged files: no crash, no leak (the address sanitizer watches), no hang, and a status that says why.
#include <algorithm>
#include <atomic>
#include <cstdlib>

#include <doctest/doctest.h>

#include "headrace/decode/image_decoder.h"
#include "headrace/decode/sample_transformer.h"

#include "decode/corrupt_files.h"
#include "decode/other_files.h"

namespace headrace::decode::corrupt_test {
namespace {

using test::Bytes;
using test::DamagedFile;

constexpr Damage kPolicies[] = {Damage::kReject, Damage::kRepair, Damage::kSalvage};

// A file may pass for sound, be repaired, or fail with a reason; afterwards the decoder works as before.
class Victim {
 public:
  explicit Victim(Damage damage) : decoder_({.damage = damage, .pixels_max = 1'000'000}) {}

  void decode(const DamagedFile& file) {
    CAPTURE(file.what);
    const Status status = decoder_.decode(file.bytes, image_);
    if (!status) CHECK_FALSE(status.error().message().empty());
    if (transformer_.decode(decoder_, file.bytes, {.seed = 1})) transformer_.write(tensor_.data());
  }

  void check_still_works() {
    const Bytes sound = test::make_jpeg({});
    REQUIRE(decoder_.decode(sound, image_));
    const test::ReferenceImage expected = test::reference_decode(sound);
    CHECK(std::ranges::equal(image_.bytes(), expected.pixels));
    CHECK(decoder_.damage().empty());
  }

 private:
  const Transform transform_ = {.geometry = RandomResizedCrop{.size = {20, 20}}};
  const TensorWriter writer_ = TensorWriter({.type = ElementType::kUint8});
  ImageDecoder decoder_;
  SampleTransformer transformer_ = SampleTransformer(transform_, writer_);
  Image image_;
  std::vector<std::byte> tensor_ = std::vector<std::byte>(20 * 20 * 3);
};

TEST_CASE("files cut, mislabelled or garbled at each marker do no harm") {
  for (Damage damage : kPolicies) {
    Victim victim(damage);
    for (const test::JpegSpec& spec : test::jpeg_kinds()) {
      const Bytes sound = test::make_jpeg(spec);
      for (const DamagedFile& file : test::damage_systematically(sound)) victim.decode(file);
    }
    victim.check_still_works();
  }
}

// HEADRACE_CORRUPT_FILES: how many per kind and policy.
TEST_CASE("randomly damaged files do no harm") {
  const char* count_text = std::getenv("HEADRACE_CORRUPT_FILES");
  const auto count = static_cast<std::uint64_t>(count_text != nullptr ? std::atoll(count_text) : 40);
  for (Damage damage : kPolicies) {
    Victim victim(damage);
    for (const test::JpegSpec& spec : test::jpeg_kinds()) {
      const Bytes sound = test::make_jpeg(spec);
      for (std::uint64_t seed = 0; seed < count; ++seed) victim.decode(test::damage_randomly(sound, seed));
    }
    victim.check_still_works();
  }
}

TEST_CASE("a progressive file with thousands of scans is refused") {
  const Bytes bomb = test::with_many_scans(5000);
  ImageDecoder decoder({});
  Image image;
  const Status status = decoder.decode(bomb, image);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == io::ErrorCode::kInvalidArgument);
  CHECK(status.error().message().find("scans") != std::string::npos);
  CHECK(decoder.damage().empty());  // a scan that comes again is damage, but nothing was repaired
  CHECK(decoder.decode(test::with_many_scans(90), image));
  CHECK_FALSE(decoder.damage().empty());
}

TEST_CASE("a file that ends early is an error, or salvaged with its upper part intact") {
  const Bytes sound = test::make_jpeg({.size = {64, 128}});
  const test::ReferenceImage expected = test::reference_decode(sound);
  const Bytes half(sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(sound.size() / 2));
  Image image;
  ImageDecoder strict({});
  const Status status = strict.decode(half, image);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == io::ErrorCode::kCorrupt);
  ImageDecoder salvaging({.damage = Damage::kSalvage});
  REQUIRE(salvaging.decode(half, image));
  CHECK_FALSE(salvaging.damage().empty());
  CHECK(std::equal(image.row(0), image.row(24), expected.pixels.begin()));
}

TEST_CASE("a repaired file is reported as such, and rejected on request") {
  Bytes file = test::make_jpeg({.restart_interval = 2});
  const std::vector<std::size_t> markers = test::marker_offsets(file);
  const std::size_t restart = markers[markers.size() / 2];  // restart markers are most of them
  file.insert(file.begin() + static_cast<std::ptrdiff_t>(restart), 5, std::byte{0x11});
  Image image;
  ImageDecoder repairing({});
  REQUIRE(repairing.decode(file, image));
  CHECK_FALSE(repairing.damage().empty());
  ImageDecoder strict({.damage = Damage::kReject});
  CHECK_FALSE(strict.decode(file, image));
}

// As a disk leaves a file that it had no time to write.
TEST_CASE("a JPEG whose second half is zero is rejected on request, whole and in part") {
  ImageDecoder strict({.damage = Damage::kReject});
  Image image;
  for (const test::JpegSpec& spec : test::jpeg_kinds()) {
    CAPTURE(test::describe(spec));
    const Bytes sound = test::make_jpeg(spec);
    for (const std::size_t kept_at_end : {std::size_t{0}, std::size_t{2}}) {  // 2: the mark of the end is there
      Bytes file = sound;
      std::fill(file.begin() + static_cast<std::ptrdiff_t>(file.size() / 2),
                file.end() - static_cast<std::ptrdiff_t>(kept_at_end), std::byte{0});
      CHECK_FALSE(strict.decode(file, image));
      for (const std::uint32_t reduce : {1U, 2U, 8U}) {
        REQUIRE(strict.open(file));
        CHECK_FALSE(strict.decode_region({1, 0, 3, 2}, reduce, image));
      }
    }
  }
}

TEST_CASE("the strictest decoder takes every sound file, whole and in part") {
  ImageDecoder strict({.damage = Damage::kReject});
  Image image;
  for (const test::JpegSpec& spec : test::jpeg_kinds()) {
    CAPTURE(test::describe(spec));
    const Bytes file = test::make_jpeg(spec);
    for (const std::uint32_t reduce : {1U, 2U, 4U, 8U}) {
      const Size size = reduced(spec.size, reduce);
      for (std::uint32_t y = 0; y < size.height; ++y) {
        const std::uint32_t height = 1 + y * 7 % (size.height - y);
        REQUIRE(strict.open(file));
        REQUIRE(strict.decode_region({y % 5, y, size.width - y % 5, height}, reduce, image));
      }
    }
  }
}

TEST_CASE("a large image with many scans is refused although a small one may have them") {
  const Bytes file = test::with_many_scans(90);  // of 64 x 64
  Image image;
  CHECK(ImageDecoder({.scanned_pixels_max = 90 * 64 * 64}).decode(file, image));
  const Status status = ImageDecoder({.scanned_pixels_max = 89 * 64 * 64}).decode(file, image);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == io::ErrorCode::kInvalidArgument);
  // One scan is what the limit of pixels is for.
  CHECK(ImageDecoder({.scanned_pixels_max = 1}).decode(test::make_jpeg({}), image));
}

TEST_CASE("another thread can end the decoding of an image, and nothing is salvaged then") {
  const std::vector<std::uint8_t> rgb = test::make_pixels(test::kPictureSize, 3, 4);
  Image image;
  for (const Damage damage : kPolicies) {
    for (const Bytes& file :
         {test::make_jpeg({}), test::make_jpeg({.progressive = true}), test::make_png(rgb), test::make_webp(rgb)}) {
      std::atomic<bool> stopped = false;
      ImageDecoder decoder({.damage = damage});
      decoder.end_when(stopped);
      REQUIRE(decoder.decode(file, image));
      stopped = true;
      const Status status = decoder.decode(file, image);
      REQUIRE_FALSE(status);
      CHECK(status.error().code == io::ErrorCode::kCancelled);
    }
  }
}

}  // namespace
}  // namespace headrace::decode::corrupt_test
