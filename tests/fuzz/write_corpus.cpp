// SPDX-License-Identifier: Apache-2.0
// Fills a folder with what fuzzing starts from: write_corpus FOLDER
//
// Sound files of every format and kind, and the same cut off at each marker, with wrong lengths, overwritten tables and
// huge dimensions; progressive files with thousands of scans.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "decode/corrupt_files.h"
#include "decode/jpeg_files.h"
#include "decode/other_files.h"

namespace {

using namespace headrace::test;  // a program of one file

class Corpus {
 public:
  explicit Corpus(const std::filesystem::path& folder) : folder_(folder) {}

  void add(const Bytes& bytes) {
    std::ofstream file(folder_ / std::to_string(count_++), std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    good_ = good_ && file.flush().good();
  }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] bool good() const { return good_; }

 private:
  const std::filesystem::path folder_;
  int count_ = 0;
  bool good_ = true;
};

void add_jpegs(Corpus& corpus) {
  for (const JpegSpec& spec : jpeg_kinds()) {
    const Bytes sound = make_jpeg(spec);
    corpus.add(sound);
    for (const DamagedFile& damaged : damage_systematically(sound)) corpus.add(damaged.bytes);
  }
  for (unsigned orientation = 1; orientation <= 8; ++orientation) {
    corpus.add(with_orientation(make_jpeg({.size = {16, 8}}), orientation));
  }
  for (const std::size_t scans : {20U, 1000U, 5000U}) corpus.add(with_many_scans(scans));
}

void add_others(Corpus& corpus) {
  const std::vector<std::uint8_t> rgb = make_pixels(kPictureSize, 3, 1);
  const auto height = static_cast<std::int32_t>(kPictureSize.height);
  for (const Bytes& sound :
       {make_png(rgb), make_png(rgb, exif_tiff(6)), make_webp(rgb), with_exif_chunk(make_webp(rgb), exif_tiff(6)),
        make_bmp(height, 24, "", bgr_rows(rgb, false, 3)), make_bmp(-height, 32, "", bgr_rows(rgb, true, 4)),
        make_npy("(23, 37, 3)", rgb), Bytes(3073), Bytes(3074)}) {
    corpus.add(sound);
    for (std::uint64_t seed = 0; seed < 20; ++seed) corpus.add(damage_randomly(sound, seed).bytes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: write_corpus FOLDER\n", stderr);
    return 2;
  }
  Corpus corpus(argv[1]);
  add_jpegs(corpus);
  add_others(corpus);
  if (!corpus.good()) {
    std::fprintf(stderr, "write_corpus: cannot write to %s\n", argv[1]);
    return 1;
  }
  std::printf("%d files\n", corpus.count());
}
