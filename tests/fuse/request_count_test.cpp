// SPDX-License-Identifier: Apache-2.0
// How many requests reach the daemon for each way of reading: the speed of the mount rests on these being zero.
#include <cstdlib>
#include <filesystem>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuse/mounted.h"

namespace headrace::fuse::request_count_test {
namespace {

using test::Mounted;
using test::need_fuse;
using test::read_file;
using test::until_pages_stay;

constexpr std::size_t kSampleBytes = 100'000;
constexpr unsigned kSampleCount = 8;

void start_pushed(Mounted& mounted) {
  mounted.write_samples(kSampleCount, kSampleBytes);
  mounted.options.ram_bytes = 64 << 20;
  mounted.start();
  REQUIRE(mounted.mount().push_until_full([](const PushProgress&) { return true; }));
  mounted.settle();
  REQUIRE(mounted.mount().stats().pushed_samples == kSampleCount);
}

void read_all(const Mounted& mounted) {
  for (unsigned i = 0; i < kSampleCount; ++i) {
    CHECK(read_file(mounted.file(Mounted::sample_name(i))) == Mounted::sample_content(i, kSampleBytes));
  }
}

TEST_CASE("a pushed file is opened, stated, read and closed with no request") {
  need_fuse();
  until_pages_stay([] {
    Mounted mounted;
    start_pushed(mounted);
    read_all(mounted);  // the first OPEN and FLUSH are refused once
    const std::uint64_t before = mounted.requests();
    read_all(mounted);
    CHECK(mounted.requests("OPEN") == 1);
    CHECK(mounted.requests("FLUSH") == 1);
    return mounted.requests() == before && mounted.requests("READ") == 0;
  });
}

TEST_CASE("a file that was not pushed costs one READ the first time and nothing later") {
  need_fuse();
  until_pages_stay([] {
    Mounted mounted;
    mounted.write_samples(kSampleCount, kSampleBytes);
    mounted.start();
    mounted.settle();
    read_all(mounted);
    CHECK(mounted.requests("READ") >= kSampleCount);
    const bool once = mounted.requests("READ") == kSampleCount;
    const std::uint64_t before = mounted.requests();
    read_all(mounted);
    return once && mounted.requests() == before;
  });
}

TEST_CASE("a file of a megabyte is one READ where readahead can be raised") {
  need_fuse();
  test::need_root();
  until_pages_stay([] {
    Mounted mounted;
    mounted.source().write("a/file", Mounted::sample_content(1, 1 << 20));
    mounted.start();
    mounted.settle();
    CHECK(read_file(mounted.file("a/file")).size() == 1 << 20);
    return mounted.requests("READ") <= 2;
  });
}

TEST_CASE("looking at files again, listing again and missing names cost no request") {
  need_fuse();
  until_pages_stay([] {  // what is kept of folders lies in pages, too
    Mounted mounted;
    mounted.write_samples(kSampleCount, kSampleBytes);
    mounted.start();
    mounted.settle();
    const auto look = [&] {
      struct stat status {};
      for (const auto& entry : std::filesystem::recursive_directory_iterator(mounted.path())) {
        REQUIRE(::stat(entry.path().c_str(), &status) == 0);
      }
      CHECK(::stat(mounted.file("a/missing").c_str(), &status) != 0);
    };
    look();
    const std::uint64_t before = mounted.requests();
    look();
    return mounted.requests() == before;
  });
}

// Lets Python open and read one file.
void read_with_python(const Mounted& mounted) {
  const std::string command =
      "/usr/bin/python3 -c 'open(\"" + mounted.file(Mounted::sample_name(3)) + "\", \"rb\").read()'";
  REQUIRE(std::system(command.c_str()) == 0);
}

TEST_CASE("Python's open and read of a pushed file costs its ioctl alone") {
  need_fuse();
  if (::access("/usr/bin/python3", X_OK) != 0) headrace::test::skip("no python3");
  until_pages_stay([] {
    Mounted mounted;
    start_pushed(mounted);
    read_all(mounted);
    const std::uint64_t before = mounted.requests();
    const std::uint64_t ioctls_before = mounted.requests("IOCTL");
    read_with_python(mounted);
    const std::uint64_t ioctls = mounted.requests("IOCTL") - ioctls_before;
    CHECK(ioctls <= 1);  // none from Python 3.14 on
    return mounted.requests() - before == ioctls;
  });
}

TEST_CASE("with the overlay Python's open and read of a pushed file costs no request") {
  need_fuse();
  test::need_root();
  if (::access("/usr/bin/python3", X_OK) != 0) headrace::test::skip("no python3");
  until_pages_stay([] {
    Mounted mounted;
    mounted.options.overlay = OverlayMode::kIfPossible;
    start_pushed(mounted);
    if (!mounted.mount().stats().overlay) headrace::test::skip("no overlayfs over FUSE here");
    read_all(mounted);
    const std::uint64_t before = mounted.requests();
    read_with_python(mounted);
    return mounted.requests() == before;
  });
}

}  // namespace
}  // namespace headrace::fuse::request_count_test
