// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/listing.h"

#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "headrace/cache/catalog/names.h"
#include "headrace/io/log.h"

#include "support/temp_dir.h"

namespace listing_test {

using namespace headrace::cache;
using headrace::io::ErrorCode;
using headrace::test::TempDir;
namespace fs = std::filesystem;

namespace {

// The tree that data/listing.json was made from; b/link is a symlink to e.
const std::vector<std::string> kTree = {"b/1.jpg",          "b/10.jpg",         "b/2.jpg",
                                        "B/x.PNG",          "B/X.png",          "a/z.jpeg",
                                        "a/sub/1.jpg",      "a/sub-b/1.jpg",    "a/sub/deep/2.jpg",
                                        "a/sub.d/3.jpg",    "a-b/1.jpg",        "a-b/01.jpg",
                                        "a b/1.jpg",        "n02/img_9.JPEG",   "n02/img_10.JPEG",
                                        "n02/IMG_11.jpeg",  "n10/1.webp",       "\u00e9t\u00e9/1.jpg",
                                        "e/1.jpg",          "z/1.tif",          "z/1.txt",
                                        "z/.hidden.jpg",    ".dot/1.jpg",       "\U0001F600/1.jpg",
                                        "\uffee/1.jpg",     "z/\u00e4.jpg",     "z/a.jpg",
                                        "z/b.jpg",          "z/\U0001F600.jpg", "z/\uffee.jpg",
                                        "raw/\xff\xfe.jpg", "raw/\u00e9.jpg",   "raw/a.jpg",
                                        "raw/\ud7ff.jpg",   "raw/\ue000.jpg",   "raw/\U0001F600.jpg",
                                        "raw/\x80.jpg"};

void make_tree(const TempDir& dir) {
  for (const std::string& path : kTree) dir.write(path, "x");
  fs::create_directory_symlink("../e", dir.path() / "b/link");
}

nlohmann::json golden() {
  std::ifstream stream(std::string(HEADRACE_TEST_DATA) + "/listing.json");
  return nlohmann::json::parse(stream);
}

// Names that are not UTF-8 are given in hexadecimal.
std::string decode_path(const std::string& path) {
  if (!path.starts_with("726177")) return path;
  std::string bytes;
  for (std::size_t i = 0; i < path.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(path.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::vector<std::string> decode_paths(const nlohmann::json& paths) {
  std::vector<std::string> decoded;
  for (const auto& path : paths) decoded.push_back(decode_path(path.get<std::string>()));
  return decoded;
}

// As the loader names them, links and all.
std::vector<std::string> sample_paths(const Catalog& catalog) {
  const LoaderPaths names = loader_paths(catalog, {.listing = catalog.listing()}).value();
  std::vector<std::string> paths;
  for (SampleIndex sample = 0; sample < catalog.sample_count(); ++sample) {
    paths.push_back(loader_path(catalog, names, sample));
  }
  return paths;
}

std::vector<std::uint32_t> labels(const Catalog& catalog) {
  std::vector<std::uint32_t> found;
  for (SampleIndex sample = 0; sample < catalog.sample_count(); ++sample) found.push_back(catalog.sample_label(sample));
  return found;
}

}  // namespace

TEST_CASE("samples and classes are those of torchvision's ImageFolder") {
  const TempDir dir;
  make_tree(dir);
  const Result<Catalog> catalog = Catalog::scan(dir.path(), {});
  REQUIRE(catalog);
  const nlohmann::json expected = golden().at("torchvision_ImageFolder");
  CHECK(sample_paths(*catalog) == decode_paths(expected.at("samples")));
  CHECK(catalog->class_count() == expected.at("classes").size());
  for (SampleIndex sample = 0; sample < catalog->sample_count(); ++sample) {
    const std::string path = decode_path(expected.at("samples")[sample]);
    CHECK(path.substr(0, path.find('/')) == expected.at("classes")[catalog->sample_label(sample)].get<std::string>());
  }
}

TEST_CASE("samples are in timm's natural order") {
  const TempDir dir;
  make_tree(dir);
  const Result<Catalog> catalog = Catalog::scan(dir.path(), {.listing = ListingRule::kTimm});
  REQUIRE(catalog);
  CHECK(sample_paths(*catalog) == decode_paths(golden().at("timm_find_images_and_targets").at("samples")));
}

TEST_CASE("a timm label is the rank of the innermost folder's name") {
  const TempDir dir;
  for (const char* path : {"train/n10/1.jpg", "train/n9/1.jpg", "val/n9/1.jpg", "val/n10/.jpg"}) dir.write(path, "x");
  const Result<Catalog> catalog = Catalog::scan(dir.path(), {.listing = ListingRule::kTimm});
  REQUIRE(catalog);
  CHECK(sample_paths(*catalog) == std::vector<std::string>{"train/n9/1.jpg", "train/n10/1.jpg", "val/n9/1.jpg"});
  CHECK(labels(*catalog) == std::vector<std::uint32_t>{0, 1, 0});
  CHECK(catalog->class_count() == 2);
}

TEST_CASE("DALI lists the files directly in each folder") {
  const TempDir dir;
  for (const char* path : {"a/2.jpg", "a/10.WEBP", "a/deep/1.jpg", "a-b/1.jpg", "c/1.wav", "c/1.gif", "top.jpg"}) {
    dir.write(path, "x");
  }
  const Result<Catalog> catalog = Catalog::scan(dir.path(), {.listing = ListingRule::kDali});
  REQUIRE(catalog);
  CHECK(sample_paths(*catalog) == std::vector<std::string>{"a/10.WEBP", "a/2.jpg", "a-b/1.jpg", "c/1.wav"});
  CHECK(labels(*catalog) == std::vector<std::uint32_t>{0, 0, 1, 2});
}

TEST_CASE("Keras leaves out hidden classes and symlinked folders, but not symlinked files") {
  const TempDir dir;
  for (const char* path : {".hidden/1.jpg", "a/2.gif", "a/sub/1.BMP", "a/sub-b/1.jpg", "b/1.jpg", "b/1.webp"}) {
    dir.write(path, "x");
  }
  fs::create_directory_symlink("../a", dir.path() / "b/linked");
  fs::create_symlink("../a/2.gif", dir.path() / "b/2.gif");
  const Result<Catalog> catalog = Catalog::scan(dir.path(), {.listing = ListingRule::kKeras});
  REQUIRE(catalog);
  CHECK(sample_paths(*catalog) ==
        std::vector<std::string>{"a/2.gif", "a/sub/1.BMP", "a/sub-b/1.jpg", "b/1.jpg", "b/2.gif"});
  CHECK(labels(*catalog) == std::vector<std::uint32_t>{0, 0, 0, 1, 1});
}

TEST_CASE("a loop of symlinked folders ends") {
  const TempDir dir;
  dir.write("a/1.jpg", "x");
  dir.write("b/2.jpg", "x");
  fs::create_directory_symlink(".", dir.path() / "a/again");
  fs::create_directory_symlink("../b", dir.path() / "a/b");
  fs::create_directory_symlink("../a", dir.path() / "b/a");
  const Result<Catalog> catalog = Catalog::scan(dir.path(), {});
  REQUIRE(catalog);
  CHECK(sample_paths(*catalog) == std::vector<std::string>{"a/1.jpg", "a/b/2.jpg", "b/2.jpg", "b/a/1.jpg"});
}

TEST_CASE("a tree full of symlink loops takes a few lines of the log, the last with their number") {
  const TempDir dir;
  dir.write("a/1.jpg", "x");
  for (int i = 0; i < 100; ++i) fs::create_directory_symlink(".", dir.path() / ("a/loop" + std::to_string(i)));
  const fs::path log = dir.path().string() + ".log";
  REQUIRE(headrace::io::set_log_file(log.c_str()));
  const Result<Catalog> catalog = Catalog::scan(dir.path(), {.listing = ListingRule::kImageFolder});
  REQUIRE(headrace::io::set_log_file("/dev/stderr"));
  REQUIRE(catalog);
  std::ifstream stream(log);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  fs::remove(log);
  CHECK(lines.size() <= 21);  // fewer where this process has logged such lines before
  CHECK(lines.back().find("100 symlink loops in all") != std::string::npos);
}

TEST_CASE("symlinked folders that multiply without end are cut off") {
  const TempDir dir;
  for (int level = 0; level < 30; ++level) {
    const fs::path folder = dir.path() / ("level" + std::to_string(level));
    fs::create_directory(folder);
    for (const char* name : {"x", "y", "z"}) {
      fs::create_directory_symlink("../level" + std::to_string(level + 1), folder / name);
    }
  }
  dir.write("level30/1.jpg", "x");
  CHECK(Catalog::scan(dir.path(), {.listing = ListingRule::kImageFolder}));
}

TEST_CASE("a sample list gives samples, order and labels") {
  const TempDir dir;
  make_tree(dir);
  const TempDir lists;
  const fs::path list =
      lists.write("list", "z/1.txt\r\n\na b/1.jpg\nb/link/1.jpg 7\nraw/\xff\xfe.jpg\nn02/img_9.JPEG\n");
  const Result<Catalog> catalog = Catalog::scan(dir.path(), {.sample_list = list});
  REQUIRE(catalog);
  CHECK(sample_paths(*catalog) ==
        std::vector<std::string>{"z/1.txt", "a b/1.jpg", "e/1.jpg", "raw/\xff\xfe.jpg", "n02/img_9.JPEG"});
  CHECK(labels(*catalog) == std::vector<std::uint32_t>{10, 3, 7, 9, 7});
  CHECK(catalog->class_count() == 11);
  CHECK(catalog->fits({.sample_list = list}));
  CHECK_FALSE(catalog->fits({}));
}

TEST_CASE("a sample list that is missing or names a missing file is refused with the line") {
  const TempDir dir;
  make_tree(dir);
  CHECK(Catalog::scan(dir.path(), {.sample_list = dir.path() / "none"}).error().code == ErrorCode::kNotFound);
  const fs::path list = dir.write("list", "b/1.jpg\nb/11.jpg\n");
  const Result<Catalog> catalog = Catalog::scan(dir.path(), {.sample_list = list});
  REQUIRE_FALSE(catalog);
  CHECK(catalog.error().code == ErrorCode::kInvalidArgument);
  CHECK(catalog.error().message().find("line 2: no file of the source: b/11.jpg") != std::string::npos);
}

TEST_CASE("names sort as Python sorts str, also where they are not UTF-8") {
  CHECK(python_compare("a", "b") < 0);
  CHECK(python_compare("a", "ab") < 0);
  CHECK(python_compare("\xed\x9f\xbf", "\x80") < 0);          // U+D7FF before the escaped byte
  CHECK(python_compare("\x80", "\xee\x80\x80") < 0);          // which comes before U+E000
  CHECK(python_compare("\xc3\xa9", "\xc3") < 0);              // a character before its torn half
  CHECK(python_compare("\xed\xa0\x80", "\xee\x80\x80") < 0);  // a surrogate in UTF-8 is invalid
  CHECK(python_compare("\xff", "\xff") == 0);
}

TEST_CASE("the natural order compares digit runs as numbers and lower-cases beyond ASCII") {
  CHECK(natural_compare("a2", "a10") < 0);
  CHECK(natural_compare("a", "a1") < 0);
  CHECK(natural_compare("a02", "a2") == 0);
  CHECK(natural_compare("a2b10", "a2b9") > 0);
  CHECK(natural_compare("99999999999999999999998", "99999999999999999999999") < 0);
  CHECK(lower_case("\u00c9T\u00c9") == "\u00e9t\u00e9");
  CHECK(lower_case("A\xff") == "a\xff");
}

}  // namespace listing_test
