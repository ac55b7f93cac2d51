// SPDX-License-Identifier: Apache-2.0
// A folder that exists for one test case, and what a test wants to do in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace headrace::test {

// Ownership: removes the folder and everything in it on destruction.
class TempDir {
 public:
  // Below $HEADRACE_TEST_DIR, else the system's temporary folder.
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Writes a file, making its folders; returns its path.
  std::filesystem::path write(std::string_view relative, std::string_view content) const;

 private:
  std::filesystem::path path_;
};

// Bytes that differ everywhere and repeat for the same seed.
[[nodiscard]] std::vector<std::byte> pattern_bytes(std::size_t count, std::uint64_t seed);
[[nodiscard]] std::string_view as_text(const std::vector<std::byte>& bytes);

// Ends the test case as skipped (exit status 77): this machine lacks something.
[[noreturn]] void skip(std::string_view reason);

}  // namespace headrace::test
