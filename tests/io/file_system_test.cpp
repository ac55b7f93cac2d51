// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/file_system.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "headrace/io/file_attributes.h"
#include "headrace/io/open_beneath.h"
#include "headrace/io/page_cache_reader.h"
#include "headrace/io/unique_fd.h"

#include "io/engines.h"
#include "support/temp_dir.h"

namespace file_system_test {

using namespace headrace::io;
using namespace headrace::test;

TEST_CASE("files in memory are read through the page cache, which is where they are") {
  if (::access("/dev/shm", W_OK) != 0) skip("no /dev/shm");
  const UniqueFd memory(::open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const FileSystemTraits traits = describe_file_system(memory.get());
  if (traits.name != "tmpfs") skip("/dev/shm is " + traits.name);
  CHECK(traits.in_memory);
  CHECK(traits.cache_mode == CacheMode::kBuffered);
  CHECK_FALSE(traits.rotational);
}

TEST_CASE("an id that lasts is told for ext4 and for no file system in memory") {
  const TempDir folder;
  folder.write("inside/f", "");
  const FileSystemTraits outer = describe_file_system(DirFd(folder.path()).get());
  CHECK(describe_file_system(DirFd(folder.path() / "inside").get()).id == outer.id);
  if (outer.name == "ext4") CHECK(outer.id != 0);
  if (outer.in_memory) CHECK(outer.id == 0);
  if (::access("/dev/shm", R_OK) == 0) CHECK(describe_file_system(DirFd("/dev/shm").get()).id == 0);
}

TEST_CASE("inode numbers last on local file systems, and one that does not is not compared") {
  const TempDir folder;
  CHECK(has_lasting_inodes(DirFd(folder.path()).get()));
  CHECK(describe_file_system(DirFd(folder.path()).get()).has_lasting_inodes);
  const FileAttributes known{.size_bytes = 1, .mtime_ns = 2, .ctime_ns = 3, .inode = 4};
  FileAttributes other = known;
  other.inode = 5;
  CHECK(known != other);
  other.inode = 0;
  CHECK(known == other);
  CHECK(other == known);
  other.ctime_ns = 4;
  CHECK(known != other);
}

TEST_CASE("the cache mode chosen for a folder works on its files") {
  const TempDir folder;
  folder.write("f", "content");
  const DirFd dir(folder.path());
  const FileSystemTraits traits = describe_file_system(dir.get());
  CAPTURE(traits.name);
  for_each_engine([&](Engine& engine) {
    Tracked read(Operation::read_path(dir.get(), "f", 0, 7, buffer_for(0, 7)));
    read.operation.cache_mode = traits.cache_mode;
    REQUIRE(run(engine, read) == 7);
    CHECK(read.text() == "content");
    CHECK(engine.info().buffered_fallbacks == 0);
  });
}

TEST_CASE("a closed descriptor gets the values that always work") {
  const FileSystemTraits traits = describe_file_system(-1);
  CHECK(traits.cache_mode == CacheMode::kBuffered);
  CHECK_FALSE(traits.rotational);
  CHECK_FALSE(physical_offset(-1));
  CHECK(traits.id == 0);
}

TEST_CASE("two files on one device have two places") {
  const TempDir folder;
  const std::string content(64 * 1024, 'x');
  const UniqueFd first(::open(folder.write("1", content).c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd second(::open(folder.write("2", content).c_str(), O_RDONLY | O_CLOEXEC));
  ::fsync(first.get());
  ::fsync(second.get());
  const auto first_place = physical_offset(first.get());
  const auto second_place = physical_offset(second.get());
  if (!first_place || !second_place) skip("this file system does not say where its files are");
  CHECK(*first_place != *second_place);
}

TEST_CASE("a file in the page cache is read at once, others are left to the engine") {
  const TempDir folder;
  const std::string content(as_text(pattern_bytes(50'000, 2)));
  const auto path = folder.write("a/f", content);
  folder.write("empty", "");
  const DirFd dir(folder.path());
  PageCacheReader reader(dir.get(), describe_file_system(dir.get()).in_memory);
  std::vector<std::byte> bytes(content.size());
  if (!reader.try_read("a/f", bytes, nullptr)) skip("this kernel has no cachestat(2)");  // just written, so cached
  CHECK(as_text(bytes) == content);
  CHECK(reader.try_read("empty", {}, nullptr));

  std::vector<std::byte> too_many(content.size() + 1);
  CHECK_FALSE(reader.try_read("a/f", too_many, nullptr));
  CHECK_FALSE(reader.try_read("a/missing", bytes, nullptr));

  const DirFd inside(folder.path() / "a");
  PageCacheReader inside_reader(inside.get());
  CHECK(inside_reader.try_read("f", bytes, nullptr));
  CHECK_FALSE(inside_reader.try_read("../a/f", bytes, nullptr));
}

TEST_CASE("asking for a cold file neither reads it nor starts to") {
  const TempDir folder;
  const auto path = folder.write("f", std::string(1 << 20, 'x'));
  const DirFd dir(folder.path());
  if (describe_file_system(dir.get()).in_memory) skip("files in memory are never cold");
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ::fsync(file.get());
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  PageCacheReader reader(dir.get());
  std::vector<std::byte> bytes(1 << 20);
  CHECK_FALSE(reader.try_read("f", bytes, nullptr));
  std::vector<std::byte> first_page(4096);
  CHECK_FALSE(reader.try_read("f", first_page, nullptr));  // read-ahead would have brought it
}

TEST_CASE("after many misses a hit is still found soon") {
  const TempDir folder;
  folder.write("f", "content");
  const DirFd dir(folder.path());
  PageCacheReader reader(dir.get(), describe_file_system(dir.get()).in_memory);
  std::vector<std::byte> bytes(7);
  if (!reader.try_read("f", bytes, nullptr)) skip("this kernel has no cachestat(2)");
  for (int i = 0; i < 200; ++i) CHECK_FALSE(reader.try_read("missing", bytes, nullptr));
  int calls = 1;
  while (!reader.try_read("f", bytes, nullptr) && calls < 100) ++calls;
  CHECK(calls <= 16);
  CHECK(reader.try_read("f", bytes, nullptr));
}

TEST_CASE("open_beneath opens what is inside and nothing else") {
  const TempDir folder;
  folder.write("in/f", "content");
  REQUIRE(::symlink("in/f", (folder.path() / "link").c_str()) == 0);
  const DirFd dir(folder.path());
  const DirFd in(folder.path() / "in");
  const UniqueFd opened(open_beneath(dir.get(), "in/f", O_RDONLY | O_CLOEXEC));
  CHECK(opened.valid());
  CHECK(open_beneath(in.get(), "../in/f", O_RDONLY) == -EXDEV);
  CHECK(open_beneath(dir.get(), "/etc/passwd", O_RDONLY) == -EXDEV);
  CHECK(open_beneath(dir.get(), "link", O_RDONLY) == -ELOOP);
  CHECK(open_beneath(dir.get(), "in/missing", O_RDONLY) == -ENOENT);
}

}  // namespace file_system_test
