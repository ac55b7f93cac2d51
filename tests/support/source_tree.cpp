// SPDX-License-Identifier: Apache-2.0
#include "support/source_tree.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>

#include <doctest/doctest.h>

namespace headrace::test {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool is_code(const Source& source) {
  const auto extension = source.path.extension();
  return extension == ".h" || extension == ".cpp";
}

bool is_script(const Source& source) {
  return source.path.extension() == ".py" || source.text.starts_with("#!");
}

bool is_code_or_script(const Source& source) {
  return is_code(source) || is_script(source);
}

std::string layer_of(const Source& source) {
  return source.path.begin()->string();
}

bool is_product_code(const Source& source) {
  static constexpr std::array<std::string_view, 6> kLayers = {"io", "cache", "fuse", "decode", "capi", "cli"};
  return is_code(source) && std::find(kLayers.begin(), kLayers.end(), layer_of(source)) != kLayers.end();
}

const std::vector<Source>& tree() {
  static const std::vector<Source> sources = [] {
    std::vector<Source> found;
    const fs::path root = HEADRACE_SOURCE_DIR;
    for (auto entry = fs::recursive_directory_iterator(root); entry != fs::recursive_directory_iterator(); ++entry) {
      const std::string name = entry->path().filename().string();
      if (name == "build" || name == ".git" || name == "__pycache__") {
        entry.disable_recursion_pending();
      } else if (entry->is_regular_file()) {
        found.push_back({fs::relative(entry->path(), root), read(entry->path())});
      }
    }
    return found;
  }();
  return sources;
}

const Source& in_tree(const fs::path& path) {
  static const Source kNone;
  const auto found = std::find_if(tree().begin(), tree().end(), [&](const Source& it) { return it.path == path; });
  return found == tree().end() ? kNone : *found;
}

Complaints over_tree(const std::function<bool(const Source&)>& filter,
                     const std::function<Complaints(const Source&)>& check) {
  Complaints all;
  for (const Source& source : tree()) {
    if (!filter(source)) continue;
    for (std::string& complaint : check(source)) all.push_back(std::move(complaint));
  }
  return all;
}

std::string at(const Source& source, std::size_t line, std::string_view what) {
  return source.path.string() + ":" + std::to_string(line) + ": " + std::string(what);
}

void expect_none(const Complaints& complaints) {
  for (const std::string& complaint : complaints) FAIL_CHECK(complaint);
  CHECK(complaints.empty());
}

}  // namespace headrace::test
