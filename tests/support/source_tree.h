// SPDX-License-Identifier: Apache-2.0
// The hand-written text of this repository, for tests that read it.
//
//   expect_none(over_tree(is_code, [](const Source& source) { return Complaints{at(source, 1, "bad")}; }));
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::test {

struct Source {
  std::filesystem::path path;  // relative to the root of the repository
  std::string text;
};

using Complaints = std::vector<std::string>;

[[nodiscard]] std::string read(const std::filesystem::path& path);
[[nodiscard]] std::vector<std::string> lines_of(const std::string& text);

[[nodiscard]] bool is_code(const Source& source);    // C++
[[nodiscard]] bool is_script(const Source& source);  // Python, or starts with #!
[[nodiscard]] bool is_code_or_script(const Source& source);
// C++ of io, cache, fuse, decode, capi or cli.
[[nodiscard]] bool is_product_code(const Source& source);
// The first part of the path: "cache" of cache/store/fetch.cpp.
[[nodiscard]] std::string layer_of(const Source& source);

// All files but those of the build and of git.
[[nodiscard]] const std::vector<Source>& tree();
// The file of the tree at `path`. An empty one where there is none.
[[nodiscard]] const Source& in_tree(const std::filesystem::path& path);

[[nodiscard]] Complaints over_tree(const std::function<bool(const Source&)>& filter,
                                   const std::function<Complaints(const Source&)>& check);
[[nodiscard]] std::string at(const Source& source, std::size_t line, std::string_view what);
// Fails the test case with each complaint.
void expect_none(const Complaints& complaints);

}  // namespace headrace::test
