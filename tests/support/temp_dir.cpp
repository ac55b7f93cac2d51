// SPDX-License-Identifier: Apache-2.0
#include "support/temp_dir.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>

#include <unistd.h>

namespace headrace::test {
namespace fs = std::filesystem;

TempDir::TempDir() {
  const char* base = std::getenv("HEADRACE_TEST_DIR");
  std::string name = ((base != nullptr ? fs::path(base) : fs::temp_directory_path()) / "headrace-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;  // a test may have removed it already
  fs::remove_all(path_, ignored);
}

fs::path TempDir::write(std::string_view relative, std::string_view content) const {
  const fs::path file = path_ / relative;
  fs::create_directories(file.parent_path());
  std::ofstream stream(file, std::ios::binary);
  stream.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!stream) throw std::runtime_error("write " + file.string());
  return file;
}

std::vector<std::byte> pattern_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::string_view as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void skip(std::string_view reason) {
  std::printf("skipped: %.*s\n", static_cast<int>(reason.size()), reason.data());
  std::fflush(stdout);
  std::_Exit(77);
}

}  // namespace headrace::test
