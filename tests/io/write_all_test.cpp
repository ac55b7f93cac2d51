// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/write_all.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>

#include "headrace/io/unique_fd.h"

#include "support/temp_dir.h"

namespace write_all_test {
namespace {

using headrace::io::UniqueFd;
using headrace::io::write_all;
using headrace::test::TempDir;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST_CASE("all bytes are written at their place, in a file opened to append at its end") {
  const TempDir folder;
  const std::filesystem::path path = folder.write("file", "abcdef");
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(write_all(file.get(), bytes_of("XY"), 2, "file").has_value());
  CHECK(content_of(path) == "abXYef");
  const UniqueFd end(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  REQUIRE(write_all(end.get(), bytes_of("!"), 0, "file").has_value());
  CHECK(content_of(path) == "abXYef!");
}

TEST_CASE("a write that fails names the file") {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const auto written = write_all(full.get(), bytes_of("text"), 0, "label of a tier");
  REQUIRE_FALSE(written.has_value());
  CHECK(written.error().message().find("label of a tier") != std::string::npos);
}

}  // namespace

}  // namespace write_all_test
