// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/mount_table.h"

#include <cerrno>
#include <filesystem>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/fuse/channel.h"
#include "headrace/fuse/kernel/mounted_at.h"
#include "headrace/fuse/mounts.h"

#include "support/temp_dir.h"

namespace headrace::fuse::mount_table_test {
namespace {

using io::ErrorCode;
using test::TempDir;

constexpr std::string_view kTable =
    "22 1 253:0 / / rw,relatime - ext4 /dev/root rw\n"
    "40 22 0:35 / /data\\040sets/a ro,nosuid shared:7 master:2 - fuse.headrace headrace ro,user_id=0\n"
    "41 40 0:36 / /data\\040sets/a ro,relatime - overlay headrace-overlay ro,lowerdir=x\n"
    "42 22 0:37 / /other rw - tmpfs none rw\n"
    "a line that is cut\n";

TEST_CASE("mounts at a path are listed lowest first, whatever blanks the path has") {
  const auto mounts = mounts_at(kTable, "/data sets/a");
  REQUIRE(mounts.size() == 2);
  CHECK(mounts[0].fs_type == "fuse.headrace");
  CHECK(mounts[1].fs_type == "overlay");
  CHECK(mounts[0].is_headrace());
  CHECK(mounts[1].is_headrace());
}

TEST_CASE("all mounts of headrace are seen, once each, with who made them") {
  const std::vector<SeenMount> seen = seen_mounts(std::string(kTable) +
                                                  "43 22 0:38 / /b rw - fuse.headrace headrace:/data/b "
                                                  "ro,user_id=1000,group_id=1000\n"
                                                  "44 22 0:39 / /c rw - fuse.headrace headrace:/data/c\n"
                                                  "45 22 0:39 / /bound rw - fuse.headrace headrace:/data/c\n");
  REQUIRE(seen.size() == 3);  // neither the overlay on the first nor the last bound elsewhere is a mount of its own
  CHECK(seen[0].path == "/data sets/a");
  CHECK(seen[0].user == uid_t{0});
  CHECK(seen[1].source_name == "headrace:/data/b");
  CHECK(seen[1].user == uid_t{1000});
  CHECK_FALSE(seen[2].user.has_value());
  CHECK(seen[0].also_at.empty());
  CHECK(seen[2].also_at == std::vector<std::filesystem::path>{"/bound"});
}

TEST_CASE("a mount is reached where all of it lies on top") {
  const std::string table = std::string(kTable) +
                            "43 22 0:35 / /b rw - fuse.headrace headrace ro\n"
                            "44 22 0:35 /train /part rw - fuse.headrace headrace ro\n"
                            "45 22 0:35 / /c rw - fuse.headrace headrace ro\n"
                            "46 43 0:40 / /b rw - tmpfs none rw\n";
  CHECK(places_of(table, "0:35") == std::vector<std::filesystem::path>{"/c"});  // the first one is below its overlay
  CHECK(places_of(table, "0:99").empty());
}

TEST_CASE("a mount whose first place is gone is reached where it is left") {
  const auto proc = mounts_at(std::filesystem::path("/proc"));
  REQUIRE_FALSE(proc.empty());
  const std::vector<std::filesystem::path> places = places_of(proc.back().device);
  REQUIRE_FALSE(places.empty());
  CHECK(MountedAt("/nowhere", proc.back().device).path() == places.front());
  CHECK(MountedAt("/proc", proc.back().device).path() == "/proc");
  CHECK(MountedAt("/nowhere", "0:0").path() == "/nowhere");  // as long as nothing better is known
}

TEST_CASE("mounts of others are not taken for headrace's") {
  const auto mounts = mounts_at(kTable, "/other");
  REQUIRE(mounts.size() == 1);
  CHECK_FALSE(mounts[0].is_headrace());
  CHECK(mounts_at(kTable, "/nowhere").empty());
}

TEST_CASE("a mount point that does not exist is refused") {
  TempDir dir;
  auto channel = open_channel({.mountpoint = dir.path() / "missing"});
  REQUIRE_FALSE(channel);
  CHECK(channel.error().code == ErrorCode::kNotFound);
  CHECK(channel.error().message() ==
        "mount point " + (dir.path() / "missing").string() + ": No such file or directory");
}

TEST_CASE("a mount point that is a file is refused") {
  TempDir dir;
  const auto file = dir.write("file", "x");
  auto channel = open_channel({.mountpoint = file});
  REQUIRE_FALSE(channel);
  CHECK(channel.error().os_errno == ENOTDIR);
}

TEST_CASE("a mount point that is not empty is refused unless it is the source") {
  TempDir dir;
  dir.write("file", "x");
  CHECK(check_mount_point(dir.path(), {}).error().os_errno == ENOTEMPTY);
  CHECK(check_mount_point(dir.path(), {.over_source = true}));
}

TEST_CASE("unmounting where nothing is mounted succeeds") {
  TempDir dir;
  CHECK(unmount(dir.path()));
}

}  // namespace
}  // namespace headrace::fuse::mount_table_test
