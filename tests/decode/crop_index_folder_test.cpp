// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/crop_index_folder.h"

#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/decode/batch_loader.h"
#include "headrace/decode/crop_indexes.h"
#include "headrace/decode/internal/scan_index.h"
#include "headrace/decode/jpeg_decoder.h"

#include "decode/jpeg_files.h"
#include "decode/memory_source.h"
#include "support/temp_dir.h"

namespace headrace::decode::crop_index_folder_test {
namespace {

namespace fs = std::filesystem;
using test::make_jpeg;
using test::TempDir;

std::unique_ptr<CropIndexFolder> open_folder(const fs::path& path,
                                             std::uint64_t bytes_max = CropIndexFolder::kBytesMax) {
  auto folder = CropIndexFolder::open(path, bytes_max);
  REQUIRE(folder);
  return *std::move(folder);
}

// A sound index of no particular file, longer with each step.
std::vector<std::byte> packed_index(const ContentId& content, std::uint32_t points) {
  const std::vector<std::uint8_t> scan(30'000);
  ScanLayout layout;
  layout.data = scan;
  layout.mcu_count = 200;
  layout.blocks = 6;
  layout.components = 3;
  ScanIndex index;
  index.begin(layout);
  for (std::uint32_t i = 1; i <= points; ++i) index.add({.bit = i * 1000});
  index.cover(points * index.step());
  return index.pack(content.low);
}

TEST_CASE("indexes outlive who made them, and another one sees them at once") {
  const TempDir dir;
  const ContentId content{17, 4};
  const std::vector<std::byte> packed = packed_index(content, 5);
  const auto other = open_folder(dir.path() / "indexes");
  std::vector<std::byte> found;
  {
    const auto folder = open_folder(dir.path() / "indexes");
    CHECK_FALSE(folder->find(content, found));
    CHECK(folder->keep(content, packed));
    CHECK(folder->bytes() == packed.size());
  }
  const auto later = open_folder(dir.path() / "indexes");
  for (const auto& folder : {std::cref(*other), std::cref(*later)}) {
    REQUIRE(folder.get().find(content, found));
    CHECK(found == packed);
    CHECK_FALSE(folder.get().find({17, 5}, found));
  }
}

TEST_CASE("a longer index replaces a shorter one, and damage stays") {
  const TempDir dir;
  const auto folder = open_folder(dir.path());
  const ContentId content{1, 2};
  const std::vector<std::byte> longer = packed_index(content, 9);
  std::vector<std::byte> found;
  CHECK(folder->keep(content, packed_index(content, 3)));
  CHECK(folder->keep(content, longer));
  CHECK(folder->keep(content, packed_index(content, 3)));
  REQUIRE(folder->find(content, found));
  CHECK(found == longer);
  CHECK(folder->keep(content, {}));
  CHECK(folder->keep(content, longer));
  REQUIRE(folder->find(content, found));
  CHECK(found.empty());
}

TEST_CASE("an index that a crash or a disk has spoilt is none, and is made anew") {
  const TempDir dir;
  const auto folder = open_folder(dir.path());
  const ContentId content{0, 2};  // its slot is the file's first
  const std::vector<std::byte> packed = packed_index(content, 9);
  std::vector<std::byte> found;
  REQUIRE(folder->keep(content, packed));
  const std::uint64_t table_bytes = fs::file_size(dir.path() / "indexes-1") - packed.size();
  const auto flip = [&](std::uint64_t place) {
    std::fstream file(dir.path() / "indexes-1", std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(place));
    const int old = file.get();
    file.seekp(static_cast<std::streamoff>(place));
    file.put(static_cast<char>(old ^ 4));
  };
  for (const std::uint64_t place : {std::uint64_t{0}, std::uint64_t{9}, std::uint64_t{17}, std::uint64_t{25},
                                    std::uint64_t{29}, table_bytes, table_bytes + packed.size() - 1}) {
    CAPTURE(place);
    flip(place);
    CHECK_FALSE(folder->find(content, found));
    flip(place);
    REQUIRE(folder->find(content, found));
  }
  flip(table_bytes + 30);
  CHECK(folder->keep(content, packed));  // no longer than what is there, but that is spoilt
  REQUIRE(folder->find(content, found));
  CHECK(found == packed);
}

TEST_CASE("a bucket that is full gives up one of its indexes for another") {
  const TempDir dir;
  const auto folder = open_folder(dir.path());
  constexpr std::uint64_t kMany = 40;
  std::vector<std::byte> found;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const ContentId content{5, i};
    CHECK(folder->keep(content, packed_index(content, 4)));
    CHECK(folder->find(content, found));
  }
  std::uint64_t held = 0;
  for (std::uint64_t i = 0; i < kMany; ++i) held += folder->find({5, i}, found) ? 1 : 0;
  CHECK(held == 16);
}

void make_older(const fs::path& file, std::chrono::hours age) {
  fs::last_write_time(file, fs::last_write_time(file) - age);
}

TEST_CASE("a full file takes no more, and is begun anew when it has been full for a week") {
  const TempDir dir;
  std::vector<std::byte> found;
  {
    const auto folder = open_folder(dir.path(), 1000);
    std::uint64_t kept = 0;
    for (std::uint64_t i = 0; i < 100; ++i) kept += folder->keep({i, i}, packed_index({i, i}, 9)) ? 1 : 0;
    CHECK(kept > 0);
    CHECK(kept < 100);
    CHECK(folder->bytes() <= 1000);
    CHECK(folder->find({0, 0}, found));
  }
  CHECK(open_folder(dir.path(), 1000)->find({0, 0}, found));
  make_older(dir.path() / "indexes-1", std::chrono::hours(6 * 24));
  CHECK(open_folder(dir.path(), 1000)->find({0, 0}, found));
  make_older(dir.path() / "indexes-1", std::chrono::hours(25));
  CHECK(open_folder(dir.path(), 2000)->find({0, 0}, found));  // not full, then
  const auto fresh = open_folder(dir.path(), 1000);
  CHECK(fresh->bytes() == 0);
  CHECK_FALSE(fresh->find({0, 0}, found));
}

TEST_CASE("what cannot be used as a folder of indexes is named") {
  const TempDir dir;
  dir.write("file", "no folder");
  fs::create_directories(dir.path() / "other/indexes-1");
  const auto below_file = CropIndexFolder::open(dir.path() / "file");
  REQUIRE_FALSE(below_file);
  CHECK(below_file.error().message().find("file") != std::string::npos);
  const auto not_a_file = CropIndexFolder::open(dir.path() / "other");
  REQUIRE_FALSE(not_a_file);
  CHECK(not_a_file.error().message().find("indexes-1") != std::string::npos);
}

// Runs in a child, which must not report to the test.
void in_child(std::vector<pid_t>& children, const std::function<bool()>& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(body() ? 0 : 1);
  children.push_back(child);
}

void wait_for(const std::vector<pid_t>& children) {
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

TEST_CASE("a child of fork looks up, and adds nothing") {
  const TempDir dir;
  const auto folder = open_folder(dir.path());
  REQUIRE(folder->keep({1, 1}, packed_index({1, 1}, 4)));
  std::vector<pid_t> children;
  in_child(children, [&] {
    std::vector<std::byte> found;
    return folder->find({1, 1}, found) && !folder->keep({2, 2}, packed_index({2, 2}, 4));
  });
  wait_for(children);
}

TEST_CASE("several processes add to one folder, and none spoils what another one added") {
  constexpr std::uint64_t kProcesses = 4;
  constexpr std::uint64_t kEach = 200;
  const TempDir dir;
  const auto folder = open_folder(dir.path());
  std::vector<pid_t> children;
  for (std::uint64_t process = 0; process < kProcesses; ++process) {
    in_child(children, [&] {
      const auto own = CropIndexFolder::open(dir.path());
      if (!own) return false;
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const ContentId content{i, process};  // four to a bucket
        const std::vector<std::byte> packed = packed_index(content, 3 + static_cast<std::uint32_t>(i % 7));
        while (!(*own)->keep(content, packed)) ::usleep(100);  // another one is adding
      }
      return true;
    });
  }
  wait_for(children);
  std::vector<std::byte> found;
  std::uint64_t right = 0;
  for (std::uint64_t process = 0; process < kProcesses; ++process) {
    for (std::uint64_t i = 0; i < kEach; ++i) {
      const ContentId content{i, process};
      right += folder->find(content, found) && found == packed_index(content, 3 + static_cast<std::uint32_t>(i % 7));
    }
  }
  CHECK(right == kProcesses * kEach);
}

TEST_CASE("a loader finds the indexes that the loader before it made") {
  const TempDir dir;
  test::Files files;
  for (unsigned seed = 0; seed < 6; ++seed)
    files.push_back(make_jpeg({.size = {120, 90}, .quality = 90, .seed = seed}));
  const auto run = [&](const fs::path& folder, std::vector<std::byte>& all) {
    const BatchOptions options = {.batch_size = 3,
                                  .seed = 7,
                                  .transform = {.geometry = RandomResizedCrop{.size = {16, 12}, .scale_max = 0.5}},
                                  .workers = {.threads = 2, .crop_index_folder = folder}};
    auto loader = BatchLoader::start(std::make_unique<test::MemorySource>(files, 1), options);
    REQUIRE(loader);
    while (const Batch* batch = (*loader)->next()) all.insert(all.end(), batch->data.begin(), batch->data.end());
    return (*loader)->report();
  };
  std::array<std::vector<std::byte>, 3> pixels;
  CHECK(run({}, pixels[0]).crops.count(CropWay::kMade) == 6);
  const StageReport first = run(dir.path(), pixels[1]);
  CHECK(first.crops.count(CropWay::kMade) == 6);
  CHECK(first.crops.folder_bytes > 0);
  CHECK(format(first).find("on disk") != std::string::npos);
  const StageReport second = run(dir.path(), pixels[2]);
  CHECK(second.crops.count(CropWay::kMade) == 0);
  CHECK(second.crops.count(CropWay::kIndexed) == 6);
  CHECK(pixels[1] == pixels[0]);
  CHECK(pixels[2] == pixels[0]);
}

TEST_CASE("a loader whose folder cannot be used goes without it") {
  const TempDir dir;
  dir.write("file", "no folder");
  const test::Files files = {make_jpeg({})};
  const BatchOptions options = {.batch_size = 1, .workers = {.threads = 1, .crop_index_folder = dir.path() / "file"}};
  auto loader = BatchLoader::start(std::make_unique<test::MemorySource>(files, 1), options);
  REQUIRE(loader);
  const Batch* batch = (*loader)->next();
  REQUIRE(batch != nullptr);
  CHECK((*loader)->report().crops.folder_bytes == 0);
}

}  // namespace
}  // namespace headrace::decode::crop_index_folder_test
