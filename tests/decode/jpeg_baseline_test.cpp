// SPDX-License-Identifier: Apache-2.0
// Who proves that a crop out of the baseline file is right: libjpeg by itself, on the original.
#include "headrace/decode/internal/jpeg_baseline.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csetjmp>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "headrace/decode/crop_indexes.h"
#include "headrace/decode/image_decoder.h"
#include "headrace/decode/jpeg_decoder.h"

#include "decode/corrupt_files.h"
#include "decode/jpeg_files.h"
#include "support/temp_dir.h"

// After <jpeglib.h>, which it uses without including it.
#include <jerror.h>

namespace headrace::decode::jpeg_baseline_test {
namespace {

using test::Bytes;
using test::JpegSpec;
using test::make_jpeg;
using test::TempDir;

constexpr DecodeOptions kPlain = {.walk_scans = false};

// Decoders with a folder, as a training has them; each crop is compared with that of libjpeg alone.
class Training {
 public:
  explicit Training(const std::filesystem::path& path, std::uint64_t bytes_max = CropIndexFolder::kBytesMax)
      : folder_(*CropIndexFolder::open(path, bytes_max)) {
    decoder_.use_indexes(indexes_);
  }

  // How the crop was decoded.
  CropWay crop(const Bytes& file, const Box& box, std::uint32_t reduce = 1) {
    const CropReport before = indexes_.report();
    JpegDecoder plain(kPlain);
    Image expected;
    Image image;
    REQUIRE(plain.open(file));
    REQUIRE(plain.decode(box, reduce, expected));
    REQUIRE(decoder_.open(file));
    REQUIRE(decoder_.decode(box, reduce, image));
    for (std::uint32_t y = 0; y < box.height; ++y) {
      CHECK(std::equal(expected.row(y), expected.row(y) + expected.row_bytes(), image.row(y)));
    }
    CHECK(decoder_.damage() == plain.damage());
    return way_since(before);
  }

  [[nodiscard]] JpegDecoder& decoder() { return decoder_; }
  [[nodiscard]] CropIndexes& indexes() { return indexes_; }

 private:
  CropWay way_since(const CropReport& before) const {
    const CropReport now = indexes_.report();
    for (std::size_t way = 0; way < kCropWays; ++way) {
      if (now.crops[way] > before.crops[way]) return static_cast<CropWay>(way);
    }
    FAIL("no crop was counted");
    return CropWay::kUnchecked;
  }

  const std::unique_ptr<CropIndexFolder> folder_;
  CropIndexes indexes_ = CropIndexes(1 << 20, folder_.get());
  JpegDecoder decoder_ = JpegDecoder({});
};

std::vector<JpegSpec> specs_without_index() {
  std::vector<JpegSpec> specs;
  for (JpegSpec spec : test::jpeg_kinds()) {
    spec.progressive = !spec.arithmetic;
    specs.push_back(spec);
  }
  return specs;
}

// With the first scans alone, as a download that broke off and was ended properly.
Bytes with_scans(const Bytes& file, std::size_t scans) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i + 1 < file.size(); ++i) {
    if (file[i] == std::byte{0xff} && file[i + 1] == std::byte{0xda}) starts.push_back(i);
  }
  REQUIRE(starts.size() > scans);
  Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(starts[scans]));
  cut.insert(cut.end(), {std::byte{0xff}, std::byte{0xd9}});
  return cut;
}

TEST_CASE("crops of progressive and arithmetic files begin within a baseline file, with the same pixels") {
  for (const JpegSpec& spec : specs_without_index()) {
    CAPTURE(test::describe(spec));
    const TempDir dir;
    Training training(dir.path());
    const Bytes file = make_jpeg(spec);
    const Size size = spec.size;
    CHECK(training.crop(file, {0, 0, size.width, size.height - 1}) == CropWay::kMade);
    for (const std::uint32_t reduce : {1U, 2U, 4U, 8U}) {
      const Size smaller = reduced(size, reduce);
      for (const Box& box : {Box{smaller.width / 3, smaller.height / 3, smaller.width / 2, smaller.height / 2},
                             Box{smaller.width - 1, 0, 1, smaller.height}, Box{0, smaller.height - 1, 1, 1}}) {
        CHECK(training.crop(file, box, reduce) != CropWay::kUnsuited);
      }
    }
    CHECK(training.crop(file, {1, 1, 3, 3}) == CropWay::kIndexed);
  }
}

TEST_CASE("the next training finds the baseline files") {
  const TempDir dir;
  const Bytes file = make_jpeg({.size = {301, 203}, .progressive = true});
  CHECK(Training(dir.path()).crop(file, {0, 0, 301, 200}) == CropWay::kMade);
  CHECK(Training(dir.path()).crop(file, {100, 100, 64, 64}) == CropWay::kIndexed);
}

TEST_CASE("an index that is made ahead, and a part that is cut out, take the baseline file as well") {
  const TempDir dir;
  const Bytes file = make_jpeg({.size = {301, 203}, .progressive = true});
  Training training(dir.path());
  REQUIRE(training.decoder().open(file));
  CHECK(training.decoder().make_index() == CropWay::kMade);
  CHECK(training.crop(file, {100, 100, 64, 64}) == CropWay::kIndexed);

  constexpr Box kBox = {40, 50, 100, 80};
  REQUIRE(training.decoder().open(file));
  const auto spliced = training.decoder().splice(kBox);
  REQUIRE(spliced);
  JpegDecoder plain(kPlain);
  Image expected;
  Image part;
  REQUIRE(plain.open(file));
  REQUIRE(plain.decode(kBox, 1, expected));
  REQUIRE(plain.open(spliced->bytes));
  REQUIRE(plain.decode(spliced->box, 1, part));
  for (std::uint32_t y = 0; y < kBox.height; ++y) {
    CHECK(std::equal(expected.row(y), expected.row(y) + expected.row_bytes(), part.row(y)));
  }
}

// libjpeg smooths the blocks of such a file.
TEST_CASE("a progressive file that lacks its last scans is decoded as it is") {
  const TempDir dir;
  Training training(dir.path());
  const Bytes file = make_jpeg({.size = {120, 90}, .progressive = true, .quality = 40});
  for (std::size_t scans = 1; scans < 10; ++scans) {
    CAPTURE(scans);
    const Bytes cut = with_scans(file, scans);
    for (int round = 0; round < 2; ++round) CHECK(training.crop(cut, {3, 5, 80, 70}) == CropWay::kUnsuited);
  }
  CHECK(training.crop(file, {3, 5, 80, 85}) == CropWay::kMade);
}

TEST_CASE("a damaged progressive file gets the verdict that it gets without a folder") {
  const TempDir dir;
  const Bytes sound = make_jpeg({.size = {70, 50}, .progressive = true});
  constexpr Box kBox = {5, 5, 40, 30};
  for (const Damage damage : {Damage::kReject, Damage::kRepair, Damage::kSalvage}) {
    auto folder = CropIndexFolder::open(dir.path());
    REQUIRE(folder);
    CropIndexes indexes(1 << 20, folder->get());
    JpegDecoder decoder({.damage = damage});
    decoder.use_indexes(indexes);
    JpegDecoder plain({.damage = damage, .walk_scans = false});
    for (const test::DamagedFile& file : test::damage_systematically(sound)) {
      CAPTURE(file.what);
      Image image;
      Image expected;
      const auto opened = plain.open(file.bytes);
      REQUIRE(decoder.open(file.bytes).has_value() == opened.has_value());
      if (!opened || !contains(opened->size, kBox)) continue;
      const Status verdict = plain.decode(kBox, 1, expected);
      const Status status = decoder.decode(kBox, 1, image);
      REQUIRE(status.has_value() == verdict.has_value());
      CHECK(decoder.damage() == plain.damage());
      if (!status) {
        CHECK(status.error().code == verdict.error().code);
        continue;
      }
      for (std::uint32_t y = 0; y < kBox.height; ++y) {
        REQUIRE(std::equal(expected.row(y), expected.row(y) + expected.row_bytes(), image.row(y)));
      }
    }
  }
}

TEST_CASE("what is left of a baseline file that was damaged where it is kept is not used") {
  const Bytes file = make_jpeg({.size = {301, 203}, .progressive = true});
  const auto content = CropIndexes::content_of(file);
  for (const std::size_t from_end : {1U, 1000U, 5000U}) {
    const TempDir dir;
    std::vector<std::byte> packed;
    {
      Training training(dir.path());
      CHECK(training.crop(file, {0, 0, 301, 200}) == CropWay::kMade);
      REQUIRE(training.indexes().find(content, packed));
    }
    REQUIRE(packed.size() > from_end);
    packed[packed.size() - from_end] ^= std::byte{4};
    CHECK(unpack_baseline(packed, content.low).empty());
    std::fstream stored(dir.path() / "indexes-1", std::ios::in | std::ios::out | std::ios::binary);
    constexpr std::streamoff kTableBytes = 524'288 * 16 * 32;
    stored.seekg(kTableBytes);
    const std::string behind{std::istreambuf_iterator<char>(stored), {}};
    const auto place = behind.find("HJB");
    REQUIRE(place != std::string::npos);
    stored.seekp(kTableBytes + static_cast<std::streamoff>(place));
    stored.write(reinterpret_cast<const char*>(packed.data()), static_cast<std::streamsize>(packed.size()));
    stored.close();
    CHECK(Training(dir.path()).crop(file, {100, 100, 64, 64}) != CropWay::kUnsuited);  // and made again
  }
}

TEST_CASE("a baseline file is that of its original alone") {
  const Bytes one = make_jpeg({.size = {64, 64}, .seed = 1});
  const std::vector<std::byte> packed = pack_baseline(one, 17);
  CHECK(std::ranges::equal(unpack_baseline(packed, 17), one));
  CHECK(unpack_baseline(packed, 18).empty());
  CHECK(unpack_baseline(std::span(packed).first(10), 17).empty());
}

TEST_CASE("baseline files leave half of the folder to indexes") {
  const TempDir dir;
  constexpr std::uint64_t kBytesMax = 100'000;
  Training training(dir.path(), kBytesMax);
  constexpr Box kBox = {0, 0, 300, 200};
  std::array<std::uint64_t, kCropWays> ways = {};
  for (unsigned seed = 1; seed <= 30; ++seed) {
    const Bytes file = make_jpeg({.size = {301, 203}, .progressive = true, .seed = seed});
    ++ways[static_cast<std::size_t>(training.crop(file, kBox))];
  }
  CHECK(ways[static_cast<std::size_t>(CropWay::kMade)] > 0);
  CHECK(ways[static_cast<std::size_t>(CropWay::kUnsuited)] > 0);
  CHECK(training.indexes().report().folder_bytes < kBytesMax * 3 / 4);
  CHECK(training.crop(make_jpeg({.size = {301, 203}}), kBox) == CropWay::kMade);
}

// Ends what libjpeg does, as its errors have to.
struct Jump : jpeg_error_mgr {
  std::jmp_buf target;
  int code = 0;
};

// The code of the error with which it ended; 0: none.
int write_baseline(BaselineWriter& writer, const Bytes& file) {
  Jump jump;
  jpeg_decompress_struct source = {};
  source.err = jpeg_std_error(&jump);
  jump.error_exit = [](j_common_ptr info) {
    auto& self = *static_cast<Jump*>(info->err);
    self.code = self.msg_code;
    std::longjmp(self.target, 1);
  };
  jpeg_create_decompress(&source);
  if (setjmp(jump.target) == 0) {
    jpeg_mem_src(&source, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&source, TRUE);
    writer.write(source);
  }
  jpeg_destroy_decompress(&source);
  return jump.code;
}

TEST_CASE("a baseline file that would be too large is given up, and its memory freed") {
  const Bytes file = make_jpeg({.size = {1500, 900}, .progressive = true, .quality = 100});
  std::size_t bytes = 0;
  {
    BaselineWriter writer(std::size_t{16} << 20);
    REQUIRE(write_baseline(writer, file) == 0);
    bytes = writer.jpeg().size();
    REQUIRE(bytes > 200'000);  // the memory grew
    JpegDecoder decoder(kPlain);
    CHECK(decoder.open(writer.jpeg()));
  }
  BaselineWriter exact(bytes + 1);
  CHECK(write_baseline(exact, file) == 0);
  CHECK(exact.jpeg().size() == bytes);
  BaselineWriter small(bytes);
  CHECK(write_baseline(small, file) == JERR_FILE_WRITE);
}

TEST_CASE("decoding a progressive file twice without opening it again is an error, with a folder as well") {
  const TempDir dir;
  const auto folder = CropIndexFolder::open(dir.path());
  REQUIRE(folder);
  const Bytes file = make_jpeg({.progressive = true});
  for (const Damage damage : {Damage::kRepair, Damage::kSalvage}) {
    CropIndexes indexes(1 << 20, folder->get());
    JpegDecoder decoder({.damage = damage});
    decoder.use_indexes(indexes);
    REQUIRE(decoder.open(file));
    for (const bool succeeds : {true, false}) {
      Image image;
      CHECK(decoder.decode({0, 0, 20, 20}, 1, image).has_value() == succeeds);
    }
  }
}

TEST_CASE("without a folder no baseline files are made") {
  CropIndexes indexes(1 << 20);
  JpegDecoder decoder({});
  decoder.use_indexes(indexes);
  Image image;
  const Bytes file = make_jpeg({.progressive = true});
  for (int round = 0; round < 2; ++round) {
    REQUIRE(decoder.open(file));
    REQUIRE(decoder.decode({0, 0, 20, 20}, 1, image));
  }
  CHECK(indexes.report().count(CropWay::kUnsuited) == 2);
}

TEST_CASE("stopping ends the making of a baseline file, which says nothing of the file") {
  const TempDir dir;
  Training training(dir.path());
  const Bytes file = make_jpeg({.size = {301, 203}, .progressive = true});
  std::atomic<bool> stopped = true;
  training.decoder().end_when(stopped);
  Image image;
  REQUIRE(training.decoder().open(file));
  const Status status = training.decoder().decode({0, 0, 20, 20}, 1, image);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == io::ErrorCode::kCancelled);
  stopped = false;
  CHECK(training.crop(file, {0, 0, 20, 20}) == CropWay::kMade);
}

TEST_CASE("the orientation is the original's") {
  const TempDir dir;
  auto folder = CropIndexFolder::open(dir.path());
  REQUIRE(folder);
  CropIndexes indexes(1 << 20, folder->get());
  const Bytes file = test::with_orientation(make_jpeg({.size = {97, 61}, .progressive = true}), 6);
  ImageDecoder with({.apply_orientation = true});
  ImageDecoder without({.apply_orientation = true, .walk_scans = false});
  with.use_indexes(indexes);
  Image image;
  Image expected;
  for (int round = 0; round < 2; ++round) {
    REQUIRE(with.open(file) == Size{61, 97});
    REQUIRE(without.open(file) == Size{61, 97});
    REQUIRE(with.decode_region({4, 5, 50, 60}, 1, image));
    REQUIRE(without.decode_region({4, 5, 50, 60}, 1, expected));
    for (std::uint32_t y = 0; y < 60; ++y) {
      CHECK(std::equal(expected.row(y), expected.row(y) + expected.row_bytes(), image.row(y)));
    }
  }
  CHECK(indexes.report().count(CropWay::kUnsuited) == 0);
}

}  // namespace
}  // namespace headrace::decode::jpeg_baseline_test
