// SPDX-License-Identifier: Apache-2.0
// Records of a large file, read through the mount: what they cost the source.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

#include "fuse/mounted.h"

namespace headrace::fuse {
namespace {

using io::UniqueFd;
using test::Mounted;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kFileBytes = 64 * kMiB;
constexpr std::uint64_t kRecordBytes = 8192;
constexpr std::uint64_t kRecords = kFileBytes / kRecordBytes;
constexpr std::uint64_t kMarked = 64;  // every so many records begin with their number

// Ends the case as skipped without FUSE. A sparse file of 64 MiB, of which nothing can stay in the store.
void start(Mounted& mounted) {
  test::need_fuse();
  const std::filesystem::path file = mounted.source().write("pack.bin", "");
  std::filesystem::resize_file(file, kFileBytes);
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  for (std::uint64_t record = 0; record < kRecords; record += kMarked) {
    stream.seekp(static_cast<std::streamoff>(record * kRecordBytes));
    stream << record;
  }
  stream.close();
  mounted.start();
  mounted.settle();
}

UniqueFd open_pack(const Mounted& mounted) {
  UniqueFd file(::open(mounted.file("pack.bin").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(file.valid());
  return file;
}

std::uint64_t source_bytes(const Mounted& mounted) {
  return mounted.store().stats().tiers.back().hit_bytes;
}

TEST_CASE("records read at random cost the source their bytes and no more") {
  Mounted mounted;
  start(mounted);
  const UniqueFd file = open_pack(mounted);
  REQUIRE(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM) == 0);  // the kernel asks for what is read, no more
  const std::uint64_t before = source_bytes(mounted);
  std::set<std::uint64_t> records;
  std::mt19937_64 random(1);
  while (records.size() < 100) {
    const std::uint64_t record = random() % (kRecords / kMarked) * kMarked;
    if (!records.insert(record).second) continue;
    std::string bytes(kRecordBytes, '?');
    REQUIRE(::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(record * kRecordBytes)) ==
            static_cast<ssize_t>(kRecordBytes));
    REQUIRE(bytes.c_str() == std::to_string(record));
  }
  CHECK(source_bytes(mounted) - before == records.size() * kRecordBytes);
}

TEST_CASE("a record of a mapped file costs the source what the kernel reads around a page, not a chunk") {
  Mounted mounted;
  start(mounted);
  const UniqueFd file = open_pack(mounted);
  void* mapped = ::mmap(nullptr, kFileBytes, PROT_READ, MAP_SHARED, file.get(), 0);
  REQUIRE(mapped != MAP_FAILED);
  const std::uint64_t before = source_bytes(mounted);
  constexpr std::uint64_t kFaults = 16;
  for (std::uint64_t i = 0; i < kFaults; ++i) {  // 4 MiB from each other
    const std::uint64_t record = (i * 7 % kFaults) * (kRecords / kFaults) + kMarked;
    const char* bytes = static_cast<const char*>(mapped) + record * kRecordBytes;
    CHECK(bytes == std::to_string(record));
  }
  ::munmap(mapped, kFileBytes);
  CHECK(source_bytes(mounted) - before <= kFaults * (128 << 10));
}

TEST_CASE("a large file that is read from its start to its end comes by chunks") {
  Mounted mounted;
  start(mounted);
  const std::uint64_t before = mounted.store().stats().tiers.back().hits;
  CHECK(test::read_file(mounted.file("pack.bin")).size() == kFileBytes);
  const std::uint64_t reads = mounted.store().stats().tiers.back().hits - before;
  CHECK(reads < 2 * kFileBytes / (4 * kMiB));
  CHECK(mounted.requests("READ") > reads);
}

}  // namespace
}  // namespace headrace::fuse
