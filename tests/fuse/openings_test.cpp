// SPDX-License-Identifier: Apache-2.0
// What an opening reads through one mount comes ahead of it in the next.
#include "headrace/fuse/opens/openings.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

#include "fuse/mounted.h"

namespace headrace::fuse::openings_test {
namespace {

using io::UniqueFd;
using test::Mounted;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kFileBytes = 64 * kMiB;
constexpr std::uint64_t kApart = 128 << 10;
constexpr std::uint64_t kHeaders = kFileBytes / kApart;

std::string header(std::uint64_t number, int version) {
  return std::to_string(number) + " of version " + std::to_string(version);
}

// A sparse file with a header every 128 KiB.
class Opened {
 public:
  Opened() {
    test::need_fuse();
    write(1);
    mounted.options.opening_file = kept.path() / "x.catalog.opening";
  }
  void write(int version) {
    const std::filesystem::path file = mounted.source().path() / "pack.bin";
    std::ofstream(file, std::ios::app).close();
    std::filesystem::resize_file(file, kFileBytes);
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    for (std::uint64_t number = 0; number < kHeaders; ++number) {
      stream.seekp(static_cast<std::streamoff>(number * kApart));
      stream << header(number, version) << '\0';
    }
  }
  UniqueFd open() {
    UniqueFd file(::open(mounted.file("pack.bin").c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(file.valid());
    REQUIRE(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM) == 0);  // the kernel asks for what is read, no more
    return file;
  }
  // "": it could not be read.
  static std::string read(const UniqueFd& file, std::uint64_t number) {
    std::string page(kPage, '\0');
    const ssize_t count = ::pread(file.get(), page.data(), page.size(), static_cast<off_t>(number * kApart));
    return count == static_cast<ssize_t>(page.size()) ? page.c_str() : "";
  }
  void read_all(std::uint64_t first = 0, int version = 1) {
    const UniqueFd file = open();
    for (std::uint64_t number = first; number < kHeaders; ++number)
      REQUIRE(read(file, number) == header(number, version));
  }
  std::uint64_t opening_reads() { return mounted.mount().stats().opening_reads; }
  // At least so many. A READ is counted once it was answered: its reader may be here before.
  void check_opening_reads(std::uint64_t expected) {
    for (int i = 0; i < 1000 && opening_reads() < expected; ++i) ::usleep(10'000);
    CHECK(opening_reads() >= expected);
  }
  [[nodiscard]] cache::OpeningProfile profile() const {
    return cache::OpeningProfile::load(mounted.options.opening_file).value_or(cache::OpeningProfile());
  }
  // As this file is opened in one mount.
  void record() {
    mounted.start();
    read_all();
    CHECK(opening_reads() == 0);
    mounted.stop();
    REQUIRE(profile().range_count() == kHeaders);
  }

  Mounted mounted;
  test::TempDir kept;
};

TEST_CASE("the second mount fetches ahead what the opening read in the first") {
  Opened opened;
  opened.record();
  opened.mounted.start();
  const std::uint64_t before = opened.mounted.store().stats().tiers.back().hit_bytes;
  opened.read_all();
  opened.check_opening_reads(kHeaders / 2);  // some READs come before what is fetched for them
  CHECK(opened.mounted.store().stats().tiers.back().hit_bytes - before < 2 * kHeaders * kPage);
  opened.mounted.stop();
  CHECK(opened.profile().range_count() == kHeaders);  // for the third
}

TEST_CASE("a file that was replaced is opened as if it had never been") {
  Opened opened;
  opened.record();
  opened.write(2);
  opened.mounted.open_store();  // a mount of another day
  opened.mounted.start();
  opened.read_all(0, 2);
  CHECK(opened.opening_reads() == 0);
}

TEST_CASE("a file that is replaced while it is opened shows no byte of before") {
  Opened opened;
  opened.record();
  opened.mounted.start();
  {
    const UniqueFd file = opened.open();
    for (std::uint64_t number = 0; number < 100; ++number) REQUIRE(Opened::read(file, number) == header(number, 1));
  }
  opened.check_opening_reads(1);
  opened.write(2);
  const cache::EntryId entry = opened.mounted.store().catalog().find("pack.bin").value();
  REQUIRE(opened.mounted.store().look_at(entry));  // what was fetched ahead is of the version before
  opened.mounted.mount().wait_until_forgotten();
  const std::uint64_t of_before = opened.opening_reads();
  opened.read_all(0, 2);
  CHECK(opened.opening_reads() == of_before);
}

TEST_CASE("a file that is opened in another way each time is not fetched ahead any more") {
  Opened opened;
  opened.record();
  opened.mounted.start();
  {
    const UniqueFd file = opened.open();
    REQUIRE(Opened::read(file, 0) == header(0, 1));
    CHECK(opened.opening_reads() == 0);
    std::string page(kPage, '\0');
    for (std::uint64_t number = 0; number < 80; ++number)
      REQUIRE(::pread(file.get(), page.data(), kPage, static_cast<off_t>(number * kApart + kApart / 2)) == kPage);
  }
  opened.mounted.stop();
  const cache::OpeningProfile profile = opened.profile();
  REQUIRE(profile.files.size() == 1);
  CHECK(profile.files[0].ranges.empty());
  opened.mounted.start();
  opened.read_all();
  CHECK(opened.opening_reads() == 0);
  opened.mounted.stop();
  CHECK(opened.profile().range_count() == 0);
}

TEST_CASE("a profile that is damaged, of another version or of other files does no harm") {
  Opened opened;
  opened.record();
  SUBCASE("damaged") {
    std::filesystem::resize_file(opened.mounted.options.opening_file, 100);
  }
  SUBCASE("foreign") {
    std::ofstream(opened.mounted.options.opening_file) << "something else";
  }
  SUBCASE("of other files") {
    cache::OpeningProfile other;
    other.put({.path = "no such file", .identity = {.size_bytes = kPage}, .ranges = {{0, kPage}}});
    REQUIRE(other.save(opened.mounted.options.opening_file));
  }
  opened.mounted.start();
  opened.read_all();
  CHECK(opened.opening_reads() == 0);
  opened.mounted.stop();
  CHECK(opened.profile().range_count() >= kHeaders);
}

TEST_CASE("an opening is saved while the mount goes on, when its reader has come to rest") {
  Opened opened;
  opened.mounted.start();
  opened.read_all();
  while (opened.profile().files.empty()) ::usleep(50'000);  // some ten seconds
  CHECK(opened.profile().range_count() == kHeaders);
}

}  // namespace
}  // namespace headrace::fuse::openings_test
