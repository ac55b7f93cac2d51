// SPDX-License-Identifier: Apache-2.0
// Walks the source tree and finds what a compiler does not: sources that no build lists, functions that no screen
// holds, links that lead nowhere. Each check is also run on a planted fault, so that it cannot fail to fail.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "support/temp_dir.h"

namespace headrace::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLineLengthMax = 120;
constexpr std::size_t kFunctionLinesMax = 70;
constexpr std::size_t kFileLinesMax = 800;

struct Source {
  fs::path path;  // relative to the root of the repository
  std::string text;
};

using Complaints = std::vector<std::string>;

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

// Everything that was written by hand and is text.
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

template <typename Filter, typename Check>
Complaints over_tree(Filter filter, Check check) {
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

Complaints check_lines(const Source& source) {
  // Written in two parts, or this file would complain about itself.
  static const std::array<std::string, 3> kForbidden = {std::string("#include \"") + "../", std::string("FIX") + "ME",
                                                        std::string("TO") + "DO"};
  Complaints complaints;
  const std::vector<std::string> lines = lines_of(source.text);
  if (lines.size() > kFileLinesMax) complaints.push_back(at(source, lines.size(), "too many lines"));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].size() > kLineLengthMax) complaints.push_back(at(source, i + 1, "line too long"));
    if (lines[i].find('\t') != std::string::npos) complaints.push_back(at(source, i + 1, "tab"));
    for (const std::string& word : kForbidden) {
      if (lines[i].find(word) != std::string::npos) complaints.push_back(at(source, i + 1, word));
    }
  }
  return complaints;
}

Complaints check_licence(const Source& source) {
  const std::size_t first = source.text.starts_with("#!") ? source.text.find('\n') + 1 : 0;
  const std::string_view rest = std::string_view(source.text).substr(first);
  const bool good = rest.starts_with("// SPDX-License-Identifier: Apache-2.0\n") ||
                    rest.starts_with("# SPDX-License-Identifier: Apache-2.0\n");
  return good ? Complaints{} : Complaints{at(source, 1, "no SPDX line at the top")};
}

// The text with comments and the content of literals blanked out; line ends stay.
std::string without_literals(const std::string& text) {
  static const std::regex kLiterals(
      R"re(//[^\n]*|/\*[\s\S]*?\*/|R"(\w*)\([\s\S]*?\)\1"|"(\\.|[^"\\\n])*"|'(\\.|[^'\\\n])+')re");
  std::string result;
  auto last = text.cbegin();
  for (std::sregex_iterator match(text.begin(), text.end(), kLiterals), end; match != end; ++match) {
    result.append(last, (*match)[0].first);
    // An apostrophe within a number (1'000) is none: it follows a digit.
    const bool separator = *(*match)[0].first == '\'' && !result.empty() && std::isalnum(result.back()) != 0;
    if (separator) {
      result.append((*match)[0].first, (*match)[0].second);
    } else {
      std::copy_if((*match)[0].first, (*match)[0].second, std::back_inserter(result), [](char c) { return c == '\n'; });
    }
    last = (*match)[0].second;
  }
  return result.append(last, text.cend());
}

// Whether a brace after these words opens a function's body.
bool opens_function(const std::string& words) {
  static const std::regex kOther(
      R"(^\s*(namespace|class|struct|enum|union|if|else|for|while|switch|do|try|catch|case|return)\b)");
  return words.find(')') != std::string::npos && words.find('=') == std::string::npos &&
         !std::regex_search(words, kOther);
}

Complaints check_function_lengths(const Source& source) {
  struct Open {
    std::size_t line;
    bool function;
  };
  Complaints complaints;
  std::vector<Open> open;
  std::string words;
  std::size_t line = 1;
  for (const char c : without_literals(source.text)) {
    if (c == '\n') ++line;
    if (c == '{') open.push_back({line, opens_function(words)});
    if (c == '}' && !open.empty()) {
      if (open.back().function && line - open.back().line > kFunctionLinesMax) {
        complaints.push_back(at(source, open.back().line, "function too long"));
      }
      open.pop_back();
    }
    if (c == '{' || c == '}' || c == ';') {
      words.clear();
    } else {
      words += c;
    }
  }
  return complaints;
}

// The build lists a file in the CMakeLists.txt of its folder or of one above it, by its path from there.
bool is_listed(const fs::path& root, const fs::path& file) {
  for (fs::path folder = file.parent_path();; folder = folder.parent_path()) {
    const std::string name = fs::relative(file, folder.empty() ? "." : folder).string();
    std::istringstream words(read(root / folder / "CMakeLists.txt"));
    for (std::string word; words >> word;) {
      while (!word.empty() && word.back() == ')') word.pop_back();
      if (word == name) return true;
    }
    if (folder.empty()) return false;
  }
}

// Headers of a layer that are not internal are public: they are listed too, and so compile alone.
bool must_be_listed(const Source& source) {
  if (source.path.extension() == ".cpp") return true;
  const std::string layer = source.path.begin()->string();
  const bool of_layer = layer == "io" || layer == "cache" || layer == "decode" || layer == "fuse";
  return source.path.extension() == ".h" && of_layer && source.path.parent_path() == layer;
}

Complaints check_links(const fs::path& root, const Source& source) {
  static const std::regex kLink(R"(\]\(([^)#\s]+)[^)]*\))");
  Complaints complaints;
  for (std::sregex_iterator link(source.text.begin(), source.text.end(), kLink), end; link != end; ++link) {
    const std::string target = (*link)[1];
    if (target.find("://") != std::string::npos || target.starts_with("mailto:")) continue;
    if (!fs::exists(root / source.path.parent_path() / target)) {
      complaints.push_back(at(source, 1, "link to " + target));
    }
  }
  return complaints;
}

std::string repeated(std::string_view line, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += line;
  return text;
}

bool is_code_or_script(const Source& source) {
  return is_code(source) || is_script(source);
}

}  // namespace

TEST_CASE("lines are short, files too, and nothing is left unfinished") {
  expect_none(over_tree(is_code_or_script, check_lines));
  CHECK(check_lines({"planted.cpp", std::string(121, 'x')}).size() == 1);
  CHECK(check_lines({"planted.cpp", repeated("x\n", 801)}).size() == 1);
  CHECK(check_lines({"planted.cpp", std::string("#include \"") + "../x.h\""}).size() == 1);
  CHECK(check_lines({"planted.cpp", std::string("// FIX") + "ME"}).size() == 1);
}

TEST_CASE("every source names its licence") {
  expect_none(over_tree(is_code_or_script, check_licence));
  CHECK(check_licence({"planted.cpp", "#pragma once\n"}).size() == 1);
}

TEST_CASE("functions fit a screen") {
  expect_none(over_tree(is_code, check_function_lengths));
  const std::string body = repeated("  work();\n", 71);
  CHECK(check_function_lengths({"planted.cpp", "void f(int x) const {\n" + body + "}\n"}).size() == 1);
  CHECK(check_function_lengths({"planted.cpp", "struct A {\n  void f() {\n" + body + "  }\n};\n"}).size() == 1);
  CHECK(check_function_lengths({"planted.cpp", "namespace a {\nvoid f();\n" + body + "}\n"}).empty());
  CHECK(check_function_lengths({"planted.cpp", "void f() {\n  const char c = '{';  // {\n}\n" + body}).empty());
  CHECK(check_function_lengths({"planted.cpp", "const int k = 1'000;\nint g() {\n" + body + "}\n"}).size() == 1);
}

TEST_CASE("every source and public header is listed in the build") {
  const fs::path root = HEADRACE_SOURCE_DIR;
  expect_none(over_tree(must_be_listed, [&](const Source& source) {
    return is_listed(root, source.path) ? Complaints{} : Complaints{at(source, 1, "in no CMakeLists.txt")};
  }));
  CHECK_FALSE(is_listed(root, "tests/planted_test.cpp"));
}

TEST_CASE("links between documents resolve") {
  const fs::path root = HEADRACE_SOURCE_DIR;
  expect_none(over_tree([](const Source& source) { return source.path.extension() == ".md"; },
                        [&](const Source& source) { return check_links(root, source); }));
  CHECK(check_links(root, {"planted.md", "see [there](no/such/file.md)"}).size() == 1);
  CHECK(check_links(root, {"planted.md", "see [there](tests/tidy_test.cpp#top)"}).empty());
}

TEST_CASE("sources are formatted by clang-format") {
  if (std::system("command -v clang-format >/dev/null") != 0) skip("clang-format is not installed");
  const TempDir dir;
  std::string list;
  for (const Source& source : tree()) {
    if (is_code(source)) list += (fs::path(HEADRACE_SOURCE_DIR) / source.path).string() + "\n";
  }
  const fs::path file = dir.write("files", list);
  CHECK(std::system(("xargs clang-format --dry-run -Werror <" + file.string()).c_str()) == 0);
}

}  // namespace headrace::test
