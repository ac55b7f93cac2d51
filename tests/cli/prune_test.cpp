// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/prune.h"

#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "support/temp_dir.h"

namespace prune_test {

using headrace::cli::prune;
using headrace::test::TempDir;

namespace {

// A file that was last used at this second.
std::string make(const TempDir& folder, const std::string& name, std::size_t bytes, long second) {
  const std::string path = folder.write(name, std::string(bytes, 'x')).string();
  const timespec times[2] = {{second, 0}, {second, 0}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  return path;
}

bool never(const std::filesystem::path&) {
  return false;
}

}  // namespace

TEST_CASE("the files that were used last are kept, others of the same ending go") {
  const TempDir folder;
  const std::string old = make(folder, "a.log", 1, 100);
  const std::string newer = make(folder, "b.log", 1, 200);
  const std::string newest = make(folder, "c.log", 1, 300);
  const std::string other = make(folder, "d.catalog", 1, 1);
  prune(folder.path(), ".log", {.files = 2, .bytes = 1000}, never);
  CHECK_FALSE(std::filesystem::exists(old));
  CHECK(std::filesystem::exists(newer));
  CHECK(std::filesystem::exists(newest));
  CHECK(std::filesystem::exists(other));
}

TEST_CASE("a large file goes before it makes small ones go") {
  const TempDir folder;
  const std::string small = make(folder, "a.log", 10, 100);
  const std::string large = make(folder, "b.log", 1000, 200);
  const std::string newest = make(folder, "c.log", 10, 300);
  prune(folder.path(), ".log", {.files = 10, .bytes = 100}, never);
  CHECK(std::filesystem::exists(small));
  CHECK_FALSE(std::filesystem::exists(large));
  CHECK(std::filesystem::exists(newest));
}

TEST_CASE("a file in use stays, and so do links and folders") {
  const TempDir folder;
  const std::string used = make(folder, "a.log", 1, 100);
  std::filesystem::create_directory(folder.path() / "folder.log");
  std::filesystem::create_symlink("/etc/hostname", folder.path() / "link.log");
  const std::string newest = make(folder, "b.log", 1, 300);
  prune(folder.path(), ".log", {.files = 1, .bytes = 1000}, [&](const auto& file) { return file == used; });
  CHECK(std::filesystem::exists(used));
  CHECK(std::filesystem::exists(newest));
  CHECK(std::filesystem::is_symlink(folder.path() / "link.log"));
  CHECK(std::filesystem::exists(folder.path() / "folder.log"));
  prune(folder.path() / "missing", ".log", {}, never);
}

}  // namespace prune_test
