// SPDX-License-Identifier: Apache-2.0
// What the tests of mounts have in common.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "process.h"

namespace headrace::test {

// A small data set, a mount point and a tool; unmounts what a failing test leaves behind.
struct Fixture {
  Fixture() {
    if (::access("/dev/fuse", R_OK | W_OK) != 0) skip("needs /dev/fuse");
    for (const char* name : {"cat", "dog"}) {
      for (int i = 0; i < 20; ++i) {
        const std::string content(static_cast<std::size_t>(1000 * i), static_cast<char>('a' + i));
        static_cast<void>(data.write(std::string("train/") + name + "/" + std::to_string(i) + ".jpg", content));
      }
    }
    std::filesystem::create_directory(mount_point);
  }
  ~Fixture() {
    static_cast<void>(tool({"unmount", "--force", mount_point.string()}));
    static_cast<void>(tool({"unmount", "--force", source.string()}));
  }

  // Refused in one line, nothing printed, nothing mounted, no daemon left.
  void check_refused(const std::vector<std::string>& arguments, int status, const std::string& part) const {
    const Outcome outcome = tool(arguments);
    CAPTURE(outcome.errors);
    CHECK(outcome.status == status);
    CHECK(outcome.output.empty());
    CHECK(std::count(outcome.errors.begin(), outcome.errors.end(), '\n') == 1);
    CHECK(contains(outcome.errors, part));
    CHECK_FALSE(is_mounted(mount_point));
    CHECK(std::filesystem::is_empty(tool.home() / "run"));
  }

  // The same for a second mount, beside the one that lives.
  void check_refused_elsewhere(const std::vector<std::string>& more, int status, const std::string& part) const {
    const std::filesystem::path other = data.path() / "other";
    std::filesystem::create_directories(other);
    std::vector<std::string> arguments = {"mount", source.string(), other.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = tool(arguments);
    CAPTURE(outcome.errors);
    CHECK(outcome.status == status);
    CHECK(contains(outcome.errors, part));
    CHECK_FALSE(is_mounted(other));
  }

  [[nodiscard]] nlohmann::json stat() const {
    const Outcome outcome = tool({"stat", mount_point.string(), "--json"});
    REQUIRE(outcome.status == 0);
    return nlohmann::json::parse(outcome.output);
  }

  void check_equal_trees(const std::filesystem::path& shown) const {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source)) {
      const std::filesystem::path other = shown / std::filesystem::relative(entry.path(), source);
      CAPTURE(other);
      if (!entry.is_regular_file()) continue;
      CHECK(read_file(other) == read_file(entry.path()));
      ++files;
    }
    CHECK(files == 40);
  }

  Tool tool;
  TempDir data;
  std::filesystem::path source = data.path() / "train";
  std::filesystem::path mount_point = data.path() / "mnt";
};

}  // namespace headrace::test
