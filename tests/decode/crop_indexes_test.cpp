// SPDX-License-Identifier: Apache-2.0
// Who proves that crops with an index are right: libjpeg by itself, on every kind of file that it decodes.
#include "headrace/decode/crop_indexes.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "headrace/decode/batch_loader.h"
#include "headrace/decode/internal/scan_index.h"
#include "headrace/decode/internal/scan_walk.h"
#include "headrace/decode/jpeg_decoder.h"

#include "decode/corrupt_files.h"
#include "decode/jpeg_files.h"
#include "decode/memory_source.h"

namespace headrace::decode::crop_indexes_test {
namespace {

using test::Bytes;
using test::JpegSpec;
using test::make_jpeg;

constexpr DecodeOptions kPlain = {.walk_scans = false};
constexpr std::size_t kEnoughBytes = 1 << 20;

std::string text_of(const Box& box) {
  return std::to_string(box.x) + "," + std::to_string(box.y) + " " + std::to_string(box.width) + "x" +
         std::to_string(box.height);
}

bool is_part(const Image& part, const Image& image, const Box& box) {
  if (part.size() != box.size()) return false;
  for (std::uint32_t y = 0; y < box.height; ++y) {
    const std::uint8_t* expected = image.row(box.y + y) + std::size_t{box.x} * Image::kChannels;
    if (!std::equal(expected, expected + part.row_bytes(), part.row(y))) return false;
  }
  return true;
}

// A file, decoded by libjpeg, and a decoder with an index of its own to compare with it.
class Compared {
 public:
  Compared(Bytes file, std::uint32_t reduce) : file_(std::move(file)), reduce_(reduce) {
    JpegDecoder plain(kPlain);
    const auto header = plain.open(file_);
    REQUIRE(header);
    size_ = reduced(header->size, reduce);
    REQUIRE(plain.decode(whole(size_), reduce, image_));
    decoder_.use_indexes(indexes_);
  }

  void check(const Box& box) {
    CAPTURE(text_of(box));
    REQUIRE(decoder_.open(file_));
    REQUIRE(decoder_.decode(box, reduce_, part_));
    CHECK(is_part(part_, image_, box));
    CHECK(decoder_.damage().empty());
    if (box != whole(size_)) ++crops_;
  }

  [[nodiscard]] Size size() const { return size_; }
  [[nodiscard]] const CropIndexes& indexes() const { return indexes_; }
  [[nodiscard]] std::uint64_t crops() const { return crops_; }

 private:
  const Bytes file_;
  const std::uint32_t reduce_;
  Size size_;
  Image image_;
  Image part_;
  CropIndexes indexes_ = CropIndexes(kEnoughBytes);
  JpegDecoder decoder_ = JpegDecoder({});
  std::uint64_t crops_ = 0;
};

std::vector<Box> some_boxes(Size size, int count, unsigned seed) {
  std::vector<Box> boxes;
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  for (int i = 0; i < count; ++i) {
    const std::uint32_t x = below(size.width);
    const std::uint32_t y = below(size.height);
    boxes.push_back({x, y, 1 + below(size.width - x), 1 + below(size.height - y)});
  }
  boxes.push_back(whole(size));
  return boxes;
}

bool can_be_walked(const JpegSpec& spec) {
  return !spec.progressive && !spec.arithmetic;
}

TEST_CASE("this libjpeg can be walked") {
  CHECK(index_support() == IndexSupport::kWorks);
}

TEST_CASE("crops with an index equal those of libjpeg, for every kind of file, reduced or not") {
  for (JpegSpec spec : test::jpeg_kinds()) {
    for (const Size size : {spec.size, Size{70, 131}, Size{9, 2}, Size{1, 9}, Size{16, 16}}) {
      spec.size = size;
      CAPTURE(test::describe(spec));
      for (const std::uint32_t reduce : {1U, 2U, 4U, 8U}) {
        CAPTURE(reduce);
        Compared compared(make_jpeg(spec), reduce);
        for (const Box& box : some_boxes(compared.size(), 40, reduce)) compared.check(box);
        const CropReport report = compared.indexes().report();
        const std::uint64_t walked = report.count(CropWay::kIndexed) + report.count(CropWay::kMade);
        CHECK(walked == (can_be_walked(spec) ? compared.crops() : 0));
        CHECK(report.count(CropWay::kUnsuited) == (can_be_walked(spec) ? 0 : compared.crops()));
      }
    }
  }
}

// Blocks from nearly empty to full, which end in different ways.
TEST_CASE("crops with an index equal those of libjpeg at every quality") {
  for (const int quality : {5, 30, 60, 75, 85, 90, 92, 94, 96, 98, 100}) {
    CAPTURE(quality);
    for (const bool optimised : {false, true}) {
      for (const int sampling : {1, 2}) {
        Compared compared(make_jpeg({.size = {210, 170},
                                     .horizontal_sampling = sampling,
                                     .vertical_sampling = sampling,
                                     .optimised = optimised,
                                     .quality = quality}),
                          1);
        for (const Box& box : some_boxes(compared.size(), 30, static_cast<unsigned>(quality))) compared.check(box);
        CHECK(compared.indexes().report().count(CropWay::kDamaged) == 0);
      }
    }
  }
}

// From the smallest to the largest, so that most of them find an index that ends within them.
void check_every_crop(const JpegSpec& spec, std::uint32_t reduce) {
  CAPTURE(test::describe(spec));
  Compared compared(make_jpeg(spec), reduce);
  const Size size = compared.size();
  for (std::uint32_t height = 1; height <= size.height; ++height) {
    for (std::uint32_t width = 1; width <= size.width; ++width) {
      for (std::uint32_t y = 0; y + height <= size.height; ++y) {
        for (std::uint32_t x = 0; x + width <= size.width; ++x) compared.check({x, y, width, height});
      }
    }
  }
  CHECK(compared.indexes().report().count(CropWay::kIndexed) > compared.crops() / 2);
}

TEST_CASE("every crop of a small file equals that of libjpeg") {
  check_every_crop({.size = {21, 18}}, 1);
  check_every_crop({.size = {19, 34}, .horizontal_sampling = 2, .vertical_sampling = 2}, 1);
  check_every_crop({.size = {34, 10}, .horizontal_sampling = 2, .optimised = true, .restart_interval = 1}, 1);
  check_every_crop({.size = {37, 66}, .horizontal_sampling = 2, .vertical_sampling = 2}, 4);
}

TEST_CASE("indexes stay within their budget, and files without one are decoded all the same") {
  CropIndexes indexes(1000);
  JpegDecoder decoder({});
  JpegDecoder plain(kPlain);
  decoder.use_indexes(indexes);
  Image image;
  Image expected;
  constexpr Box kBox = {20, 30, 50, 20};
  for (unsigned seed = 1; seed <= 40; ++seed) {
    const Bytes file = make_jpeg({.seed = seed});
    for (int round = 0; round < 2; ++round) {
      REQUIRE(decoder.open(file));
      REQUIRE(decoder.decode(kBox, 1, image));
      REQUIRE(plain.open(file));
      REQUIRE(plain.decode(kBox, 1, expected));
      CHECK(is_part(image, expected, whole(kBox.size())));
    }
  }
  const CropReport report = indexes.report();
  CHECK(report.bytes <= 1000);
  CHECK(report.count(CropWay::kMade) > 0);
  CHECK(report.count(CropWay::kMade) == report.files);
  CHECK(report.count(CropWay::kIndexed) == report.files);
  CHECK(report.count(CropWay::kNoRoom) == 2 * (40 - report.files));
}

TEST_CASE("an index that is continued takes no more of the budget than it grows by") {
  CropIndexes indexes(1000);
  const CropIndexes::Content content{1, 2};
  CHECK(indexes.keep(content, std::vector<std::byte>(450)));
  const std::uint64_t before = indexes.report().bytes;
  CHECK(indexes.keep(content, std::vector<std::byte>(600)));
  CHECK(indexes.report().bytes == before + 150);
  CHECK(indexes.keep(content, std::vector<std::byte>(500)));  // of a shorter crop: the longer one stays
  CHECK(indexes.report().bytes == before + 150);
  CHECK_FALSE(indexes.keep(content, std::vector<std::byte>(1000)));
  CHECK(indexes.keep(content, {}));  // it proved damaged
  CHECK(indexes.report().bytes == before - 450);
}

// What decoding a crop comes to: the same with an index and without, or the test says where not.
struct Outcome {
  bool good = false;
  io::ErrorCode code = {};
  std::string text;  // why it failed, or what was repaired
  Image image;
};

void decode(JpegDecoder& decoder, const Bytes& file, const Box& box, Outcome& outcome) {
  const auto header = decoder.open(file);
  Status status;
  if (!header) {
    status = tl::unexpected(header.error());
  } else if (!contains(header->size, box)) {
    outcome.good = false;
    outcome.text = "another size";
    return;
  } else {
    status = decoder.decode(box, 1, outcome.image);
  }
  outcome.good = status.has_value();
  if (!outcome.good) outcome.code = status.error().code;
  outcome.text = outcome.good ? decoder.damage() : status.error().context;
}

void check_same(const Outcome& outcome, const Outcome& expected) {
  CHECK(outcome.good == expected.good);
  CHECK(outcome.text == expected.text);
  if (!outcome.good && !expected.good) CHECK(outcome.code == expected.code);
  if (outcome.good && expected.good) CHECK(is_part(outcome.image, expected.image, whole(expected.image.size())));
}

class Verdicts {
 public:
  explicit Verdicts(Damage damage)
      : walked_({.damage = damage, .pixels_max = 1'000'000}),
        plain_({.damage = damage, .pixels_max = 1'000'000, .walk_scans = false}) {
    walked_.use_indexes(indexes_);
  }
  void check(const test::DamagedFile& file) {
    CAPTURE(file.what);
    for (const Box& box : {Box{40, 8, 17, 9}, Box{3, 30, 80, 20}, Box{60, 40, 37, 21}, Box{0, 0, 97, 61}}) {
      CAPTURE(text_of(box));
      decode(walked_, file.bytes, box, outcome_);
      decode(plain_, file.bytes, box, expected_);
      check_same(outcome_, expected_);
    }
  }
  [[nodiscard]] CropReport report() const { return indexes_.report(); }

 private:
  CropIndexes indexes_ = CropIndexes(std::size_t{64} << 20);
  JpegDecoder walked_;
  JpegDecoder plain_;
  Outcome outcome_;
  Outcome expected_;
};

TEST_CASE("damaged files get the verdict, the message and the pixels that libjpeg gives them") {
  for (const Damage damage : {Damage::kRepair, Damage::kSalvage, Damage::kReject}) {
    Verdicts verdicts(damage);
    std::uint64_t seed = 0;
    for (const JpegSpec& spec : test::jpeg_kinds()) {
      if (!can_be_walked(spec)) continue;
      CAPTURE(test::describe(spec));
      const Bytes sound = make_jpeg(spec);
      verdicts.check({"sound", sound});
      for (int i = 0; i < 40; ++i) verdicts.check(test::damage_randomly(sound, ++seed));
      for (int i = 0; i < 40; ++i) {
        std::mt19937_64 random(++seed);
        Bytes changed = sound;
        const std::size_t place = sound.size() * 3 / 10 + random() % (sound.size() * 7 / 10);  // behind the headers
        changed[place] ^= static_cast<std::byte>(1U << random() % 8);
        verdicts.check({"bit flipped at " + std::to_string(place), changed});
      }
    }
    const CropReport report = verdicts.report();
    if (damage == Damage::kReject) {
      CHECK(report.count(CropWay::kStrict) > 0);
    } else {
      CHECK(report.count(CropWay::kIndexed) > 0);
      CHECK(report.count(CropWay::kDamaged) > 0);
    }
  }
}

// HEADRACE_FUZZ_FILES: how many (1000).
TEST_CASE("files damaged at random get the verdict, the message and the pixels that libjpeg gives them") {
  const char* wanted = std::getenv("HEADRACE_FUZZ_FILES");
  const std::uint64_t count = wanted != nullptr ? std::stoull(wanted) : 1000;
  std::vector<Bytes> sound;
  for (const JpegSpec& spec : test::jpeg_kinds()) {
    if (can_be_walked(spec)) sound.push_back(make_jpeg(spec));
  }
  Verdicts verdicts(Damage::kRepair);
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    verdicts.check(test::damage_randomly(sound[seed % sound.size()], 1'000'000 + seed));
  }
}

// A file and another one of the same shape, of whose index it may get hold.
struct Pair {
  Bytes file = make_jpeg({.seed = 1});
  Bytes other = make_jpeg({.seed = 2});
};

std::vector<std::byte> index_of(const Bytes& file) {
  CropIndexes indexes(kEnoughBytes);
  JpegDecoder decoder({});
  decoder.use_indexes(indexes);
  Image image;
  REQUIRE(decoder.open(file));
  REQUIRE(decoder.decode({1, 0, 90, 61}, 1, image));
  std::vector<std::byte> packed;
  REQUIRE(indexes.find(CropIndexes::content_of(file), packed));
  return packed;
}

// Whether a crop of the file is right though this is what lies where its index should be, and whether it was used.
bool uses(const Bytes& file, const std::vector<std::byte>& packed) {
  CropIndexes indexes(kEnoughBytes);
  REQUIRE(indexes.keep(CropIndexes::content_of(file), packed));
  Outcome outcome;
  Outcome expected;
  JpegDecoder decoder({});
  JpegDecoder plain(kPlain);
  decoder.use_indexes(indexes);
  decode(decoder, file, {50, 40, 30, 15}, outcome);
  decode(plain, file, {50, 40, 30, 15}, expected);
  check_same(outcome, expected);
  return indexes.report().count(CropWay::kIndexed) == 1;
}

TEST_CASE("another file's index is not used") {
  const Pair pair;
  CHECK(uses(pair.file, index_of(pair.file)));
  CHECK_FALSE(uses(pair.file, index_of(pair.other)));
  CHECK_FALSE(uses(pair.other, index_of(pair.file)));
}

TEST_CASE("an index with any bit flipped, cut short or continued is not used") {
  const Bytes file = make_jpeg({});
  const std::vector<std::byte> packed = index_of(file);
  REQUIRE(packed.size() > 40);
  for (std::size_t bit = 0; bit < packed.size() * 8; ++bit) {
    std::vector<std::byte> changed = packed;
    changed[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    CHECK_FALSE(uses(file, changed));
  }
  for (std::size_t size = 1; size < packed.size(); ++size) {
    CHECK_FALSE(uses(file, {packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size)}));
  }
  std::vector<std::byte> longer = packed;
  longer.push_back(std::byte{0});
  CHECK_FALSE(uses(file, longer));
}

TEST_CASE("bytes that changed do not meet the index of what they were") {
  const Bytes file = make_jpeg({.horizontal_sampling = 2, .vertical_sampling = 2});
  CropIndexes indexes(std::size_t{64} << 20);
  JpegDecoder decoder({});
  JpegDecoder plain(kPlain);
  decoder.use_indexes(indexes);
  Outcome outcome;
  Outcome expected;
  decode(decoder, file, {10, 40, 50, 21}, outcome);
  REQUIRE(outcome.good);
  for (std::size_t place = 0; place < file.size(); ++place) {
    Bytes changed = file;
    changed[place] ^= static_cast<std::byte>(1U << place % 8);
    decode(decoder, changed, {10, 40, 50, 21}, outcome);
    decode(plain, changed, {10, 40, 50, 21}, expected);
    check_same(outcome, expected);
  }
  CHECK(indexes.report().count(CropWay::kIndexed) == 0);
}

TEST_CASE("batches are the same with indexes and without, and the report counts the crops") {
  test::Files files;
  for (unsigned seed = 0; seed < 12; ++seed) {
    files.push_back(make_jpeg({.size = {120, 90}, .progressive = seed == 3, .quality = 90, .seed = seed}));
  }
  const auto batches = [&](std::size_t crop_index_bytes, StageReport& report) {
    const BatchOptions options = {.batch_size = 4,
                                  .seed = 7,
                                  .transform = {.geometry = RandomResizedCrop{.size = {16, 12}, .scale_max = 0.5}},
                                  .workers = {.threads = 3, .crop_index_bytes = crop_index_bytes}};
    auto loader = BatchLoader::start(std::make_unique<test::MemorySource>(files, 4), options);
    REQUIRE(loader);
    std::vector<std::byte> all;
    while (const Batch* batch = (*loader)->next()) all.insert(all.end(), batch->data.begin(), batch->data.end());
    report = (*loader)->report();
    return all;
  };
  StageReport with;
  StageReport without;
  CHECK(batches(kEnoughBytes, with) == batches(0, without));
  CHECK(with.crops.count(CropWay::kMade) >= 11);
  CHECK(with.crops.count(CropWay::kMade) + with.crops.count(CropWay::kIndexed) == 4 * 11);
  CHECK(with.crops.count(CropWay::kUnsuited) == 4);
  CHECK(with.crops.files == 11);
  CHECK(format(with).find("with an index") != std::string::npos);
  CHECK(without.crops.crops == CropReport{}.crops);
  CHECK(format(without).find("JPEG crops") == std::string::npos);
}

}  // namespace
}  // namespace headrace::decode::crop_indexes_test
