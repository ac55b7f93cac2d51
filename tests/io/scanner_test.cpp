// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/scanner.h"

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

#include "support/temp_dir.h"

namespace scanner_test {

using namespace headrace::io;
using headrace::test::TempDir;
namespace fs = std::filesystem;

namespace {

std::string path_of(const ScannedTree& tree, std::uint32_t number) {
  const ScannedDirectory& directory = tree.directories[number];
  if (directory.parent == kNoDirectory) return "";
  const std::string_view name =
      std::string_view(tree.directories[directory.parent].names).substr(directory.name_offset, directory.name_bytes);
  return path_of(tree, directory.parent) + std::string(name) + "/";
}

// Every entry of the tree by path; directories end in '/'.
std::map<std::string, const ScannedEntry*> by_path(const ScannedTree& tree) {
  std::map<std::string, const ScannedEntry*> found;
  for (std::uint32_t number = 0; number < tree.directories.size(); ++number) {
    for (const ScannedEntry& entry : tree.directories[number].entries) {
      const bool folder = entry.directory != kNoDirectory;
      found[path_of(tree, number) + std::string(tree.directories[number].name(entry)) + (folder ? "/" : "")] = &entry;
    }
  }
  return found;
}

Result<ScannedTree> scan(const fs::path& folder, unsigned threads = 4) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return scan_tree(fd.get(), {.threads = threads});
}

}  // namespace

TEST_CASE("a scan finds every file with the attributes that lstat reports") {
  const TempDir dir;
  dir.write("a/b/c/deep.jpg", "12345");
  dir.write("top", "");
  ::chmod(dir.write("a/mode", "x").c_str(), 0640);
  fs::create_symlink("../top", dir.path() / "a/link");
  fs::create_directory(dir.path() / "empty");

  const Result<ScannedTree> tree = scan(dir.path());
  REQUIRE(tree);
  const auto entries = by_path(*tree);
  CHECK(entries.size() == 8);
  for (const auto& each : entries) {
    const auto& [path, entry] = each;
    CAPTURE(each.first);
    struct stat status = {};
    REQUIRE(::lstat((dir.path() / path.substr(0, path.find_last_not_of('/') + 1)).c_str(), &status) == 0);
    const bool folder = entry->directory != kNoDirectory;
    const ScannedAttributes& found = folder ? tree->directories[entry->directory].attributes : entry->attributes;
    CHECK(found.mode == status.st_mode);
    CHECK(found.size_bytes == static_cast<std::uint64_t>(status.st_size));
    CHECK(found.inode == status.st_ino);
    CHECK(found.uid == status.st_uid);
    CHECK(found.mtime_ns == status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec);
    CHECK(found.ctime_ns == status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec);
  }
  CHECK(tree->skipped == 0);
}

TEST_CASE("symlinks are kept with their targets and not followed, so that a loop ends") {
  const TempDir dir;
  fs::create_directories(dir.path() / "a");
  fs::create_directory_symlink("..", dir.path() / "a/up");
  fs::create_symlink("self", dir.path() / "self");
  const Result<ScannedTree> tree = scan(dir.path());
  REQUIRE(tree);
  CHECK(tree->directories.size() == 2);
  const auto entries = by_path(*tree);
  CHECK(tree->directories[0].target(*entries.at("self")) == "self");
  CHECK(tree->directories[1].target(*entries.at("a/up")) == "..");
}

TEST_CASE("a folder larger than one batch is scanned whole, symlink targets included") {
  const TempDir dir;
  for (int i = 0; i < 5000; ++i) {
    const std::string name = "entry" + std::to_string(i);
    if (i % 50 == 0) {
      fs::create_symlink("target" + std::to_string(i), dir.path() / name);
    } else {
      dir.write(name, std::string(static_cast<std::size_t>(i % 7), 'x'));
    }
  }
  const Result<ScannedTree> tree = scan(dir.path(), 8);
  REQUIRE(tree);
  const auto entries = by_path(*tree);
  REQUIRE(entries.size() == 5000);
  for (int i = 0; i < 5000; ++i) {
    const ScannedEntry& entry = *entries.at("entry" + std::to_string(i));
    if (i % 50 == 0) {
      CHECK(tree->directories[0].target(entry) == "target" + std::to_string(i));
    } else {
      CHECK(entry.attributes.size_bytes == static_cast<std::uint64_t>(i % 7));
    }
  }
}

TEST_CASE("names are bytes: what is not UTF-8 is found as it is") {
  const TempDir dir;
  dir.write("\xff\xfe name\n", "x");
  const Result<ScannedTree> tree = scan(dir.path());
  REQUIRE(tree);
  CHECK(by_path(*tree).count("\xff\xfe name\n") == 1);
}

TEST_CASE("special files are skipped and counted") {
  const TempDir dir;
  dir.write("file", "x");
  REQUIRE(::mkfifo((dir.path() / "fifo").c_str(), 0600) == 0);
  const Result<ScannedTree> tree = scan(dir.path());
  REQUIRE(tree);
  CHECK(by_path(*tree).size() == 1);
  CHECK(tree->skipped == 1);
  CHECK(tree->unreadable_count == 0);
}

// Root reads every folder, so the scan runs as another user, in a process of its own.
TEST_CASE("an unreadable folder is told by name, the rest is scanned") {
  const TempDir dir;
  dir.write("open/file", "x");
  dir.write("closed/file", "x");
  ::chmod(dir.path().c_str(), 0755);
  REQUIRE(::chmod((dir.path() / "closed").c_str(), 0000) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::getuid() == 0 && ::setuid(65534) != 0) ::_exit(3);
    const Result<ScannedTree> tree = scan(dir.path());
    const bool right = tree && tree->skipped == 1 && by_path(*tree).count("open/file") == 1 &&
                       by_path(*tree).count("closed/file") == 0 && tree->unreadable_count == 1 &&
                       tree->unreadable[0].path == "closed" && tree->unreadable[0].os_errno == EACCES;
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  ::chmod((dir.path() / "closed").c_str(), 0700);
}

// The limit holds for the whole process, so each scan runs in a process of its own.
TEST_CASE("a scan that has no descriptor left waits for one a little while, and then says so") {
#ifdef __SANITIZE_ADDRESS__
  headrace::test::skip("the sanitizer checks objects by means of a pipe, for which no descriptor is left");
#endif
  const TempDir dir;
  dir.write("folder/file", "x");
  for (const bool comes : {true, false}) {
    CAPTURE(comes);
    const pid_t child = ::fork();
    if (child == 0) {
      const UniqueFd root(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      const rlimit limit = {64, 64};
      if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::_exit(3);
      std::vector<int> taken;
      for (int fd = ::dup(root.get()); fd >= 0; fd = ::dup(root.get())) taken.push_back(fd);
      ::close(taken.back());  // for the scan's own copy of `root`; its first folder finds none
      std::thread giver([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        if (comes) ::close(taken.front());
      });
      const Result<ScannedTree> tree = scan_tree(root.get(), {.threads = 1});
      giver.join();
      const bool whole = tree && tree->unreadable_count == 0 && by_path(*tree).count("folder/file") == 1;
      const bool refused = !tree && tree.error().os_errno == EMFILE;
      ::_exit((comes ? whole : refused) ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

TEST_CASE("a deep tree is scanned from one thread and from many alike") {
  const TempDir dir;
  std::string path = "d";
  for (int depth = 0; depth < 200; ++depth) path += "/d";
  dir.write(path + "/file", "x");
  for (const unsigned threads : {1U, 16U}) {
    const Result<ScannedTree> tree = scan(dir.path(), threads);
    REQUIRE(tree);
    CHECK(tree->directories.size() == 202);
    CHECK(by_path(*tree).count(path + "/file") == 1);
  }
}

TEST_CASE("a root that is no open directory is an error") {
  CHECK(scan_tree(-1, {}).error().os_errno == EBADF);
  const TempDir dir;
  const UniqueFd file(::open(dir.write("file", "x").c_str(), O_RDONLY | O_CLOEXEC));
  CHECK(scan_tree(file.get(), {}).error().code == ErrorCode::kNotFound);
}

TEST_CASE("a scan that is told to stop ends as cancelled") {
  const TempDir dir;
  dir.write("a/file", "x");
  const UniqueFd fd(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::atomic<bool> stop = true;
  const Result<ScannedTree> tree = scan_tree(fd.get(), {.stop = &stop});
  REQUIRE_FALSE(tree);
  CHECK(tree.error().code == ErrorCode::kCancelled);
}

}  // namespace scanner_test
