// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "headrace/cli/doctor/inotify.h"

#include "support/temp_dir.h"

namespace doctor_inotify_test {

using headrace::cli::examine_inotify_instances;
using headrace::cli::Finding;
using headrace::cli::Health;
using headrace::test::TempDir;

TEST_CASE("inotify instances are counted, and told when few are left") {
  const TempDir proc;
  proc.write("sys/fs/inotify/max_user_instances", "128\n");
  proc.write("123/fd/0", "");
  std::filesystem::create_symlink("anon_inode:inotify", proc.path() / "123/fd/7");
  std::filesystem::create_symlink("anon_inode:[eventfd]", proc.path() / "123/fd/8");
  proc.write("456/fd/0", "");
  std::filesystem::create_symlink("anon_inode:inotify", proc.path() / "456/fd/3");
  proc.write("self/fd/0", "");
  std::filesystem::create_symlink("anon_inode:inotify", proc.path() / "self/fd/3");  // one of the others
  const Finding plenty = examine_inotify_instances(proc.path());
  CHECK(plenty.health == Health::kGood);
  CHECK(plenty.text.starts_with("2 of 128"));

  proc.write("sys/fs/inotify/max_user_instances", "17\n");
  const Finding few = examine_inotify_instances(proc.path());
  CHECK(few.health == Health::kLimit);
  CHECK(few.remedy.find("max_user_instances=") != std::string::npos);
}

}  // namespace doctor_inotify_test
