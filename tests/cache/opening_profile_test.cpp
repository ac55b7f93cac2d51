// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/opening_profile.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <xxhash.h>

#include "support/temp_dir.h"

namespace headrace::cache {
namespace {

namespace fs = std::filesystem;
using headrace::test::TempDir;

constexpr Identity kIdentity{.size_bytes = 1 << 20, .mtime_ns = 5, .ctime_ns = 6, .inode = 7};
constexpr std::size_t kHeaderBytes = 24;

OpeningProfile two_files() {
  OpeningProfile profile;
  profile.put({.path = "a/train.arrow", .identity = kIdentity, .ranges = {{0, 4096}, {65536, 100}, {8192, 4096}}});
  profile.put({.path = "b.h5", .identity = kIdentity, .ranges = {}});
  return profile;
}

std::string saved(const OpeningProfile& profile) {
  const TempDir dir;
  REQUIRE(profile.save(dir.path() / "opening"));
  std::ifstream file(dir.path() / "opening", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<OpeningProfile> parsed(const std::string& text) {
  return OpeningProfile::parse(std::as_bytes(std::span(text)));
}

// As if whoever changed it had wanted it to be taken for whole.
std::string with_right_hash(std::string text) {
  const std::uint64_t hash = XXH3_64bits(text.data() + kHeaderBytes, text.size() - kHeaderBytes);
  std::memcpy(text.data() + 16, &hash, sizeof hash);
  return text;
}

TEST_CASE("an opening profile comes back as it was saved") {
  const TempDir dir;
  const fs::path file = dir.path() / "opening";
  REQUIRE(two_files().save(file));
  REQUIRE(two_files().save(file));  // in place of the one before
  const auto loaded = OpeningProfile::load(file);
  REQUIRE(loaded);
  REQUIRE(loaded->files.size() == 2);
  CHECK(loaded->range_count() == 3);
  const FileOpening* const opening = loaded->find("a/train.arrow", kIdentity);
  REQUIRE(opening != nullptr);
  REQUIRE(opening->ranges.size() == 3);
  CHECK(opening->ranges[1].offset == 65536);
  CHECK(opening->ranges[1].length == 100);
  CHECK(opening->ranges[2].offset == 8192);
  CHECK(loaded->find("b.h5", kIdentity) != nullptr);
  CHECK(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("an opening is that of one version of the file") {
  Identity other = kIdentity;
  other.ctime_ns += 1;
  CHECK(two_files().find("a/train.arrow", other) == nullptr);
  CHECK(two_files().find("train.arrow", kIdentity) == nullptr);
  OpeningProfile profile = two_files();
  profile.put({.path = "a/train.arrow", .identity = other, .ranges = {{0, 1}}});
  CHECK(profile.files.size() == 2);
  CHECK(profile.find("a/train.arrow", kIdentity) == nullptr);
}

TEST_CASE("of a profile that is too large the oldest files are left out") {
  OpeningProfile profile;
  for (unsigned i = 0; i < 3; ++i) {
    std::vector<ChunkRange> ranges(OpeningProfile::kRangesMax / 2, ChunkRange{i, 1});
    profile.put({.path = std::to_string(i), .identity = kIdentity, .ranges = std::move(ranges)});
  }
  CHECK(profile.range_count() == OpeningProfile::kRangesMax);
  const auto loaded = parsed(saved(profile));
  REQUIRE(loaded);
  REQUIRE(loaded->files.size() == 2);
  CHECK(loaded->files[0].path == "1");
  CHECK(loaded->files[1].path == "2");
}

TEST_CASE("what is no opening profile is refused") {
  const TempDir dir;
  CHECK(OpeningProfile::load(dir.path() / "none").error().code == io::ErrorCode::kNotFound);
  CHECK(OpeningProfile::load(dir.path()).error().code == io::ErrorCode::kCorrupt);
  const std::string good = saved(two_files());
  REQUIRE(parsed(good));
  for (std::size_t length = 0; length < good.size(); ++length)
    CHECK(parsed(good.substr(0, length)).error().code == io::ErrorCode::kCorrupt);
  CHECK(parsed(good + '\0').error().code == io::ErrorCode::kCorrupt);
  std::string other_version = good;
  other_version[8] = 2;
  CHECK(parsed(other_version).error().code == io::ErrorCode::kUnsupported);
}

TEST_CASE("whatever an opening profile says, its ranges lie in their files") {
  const std::string good = saved(two_files());
  for (std::size_t at = 8; at < good.size(); ++at) {
    for (const char value : {'\0', '\1', '\x7f', '\xff'}) {
      std::string changed = good;
      changed[at] = value;
      const auto profile = parsed(with_right_hash(changed));
      if (!profile) continue;
      for (const FileOpening& opening : profile->files) {
        CHECK_FALSE(opening.path.empty());
        for (const ChunkRange& range : opening.ranges) {
          CHECK(range.length > 0);
          CHECK(range.length <= OpeningProfile::kRangeBytesMax);
          CHECK(range.offset <= opening.identity.size_bytes);
          CHECK(range.length <= opening.identity.size_bytes - range.offset);
        }
      }
    }
  }
}

}  // namespace
}  // namespace headrace::cache
