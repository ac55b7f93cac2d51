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

#include "support/source_tree.h"
#include "support/temp_dir.h"

namespace headrace::test::tidy_test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLineLengthMax = 120;
constexpr std::size_t kFunctionLinesMax = 70;
constexpr std::size_t kFileLinesMax = 800;

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

// ctest takes such a name for those of two tests, which have no case, and so pass.
Complaints check_case_names(const Source& source) {
  static const std::regex kHasSemicolon("TEST_CASE\\(\\s*\"[^\"]*;");
  Complaints complaints;
  for (std::sregex_iterator found(source.text.begin(), source.text.end(), kHasSemicolon), end; found != end; ++found) {
    const auto line = std::count(source.text.begin(), source.text.begin() + found->position(), '\n');
    complaints.push_back(at(source, static_cast<std::size_t>(line) + 1, "a semicolon in the name of a test case"));
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
  const bool of_layer = layer == "io" || layer == "cache" || layer == "decode" || layer == "fuse" || layer == "capi";
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

// A line of a usage example without what follows from its end: blanks, comments.
std::string bare_code(const std::string& line) {
  const std::string code = without_literals(line);
  return code.substr(0, code.find_last_not_of(' ') + 1);
}

std::size_t count_of_word(const std::string& code, const std::string& word) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  std::size_t count = 0;
  for (std::size_t i = code.find(word); i != std::string::npos; i = code.find(word, i + 1)) {
    const std::size_t end = i + word.size();
    if ((i == 0 || !is_part(code[i - 1])) && (end == code.size() || !is_part(code[end]))) ++count;
  }
  return count;
}

// Names that a source brings in or defines for itself, and does not use. clang-tidy reads several sources as one, takes
// each for a header, and does not look for them there.
Complaints check_unused_names(const Source& source) {
  static const std::regex kName(
      R"(^(?:using (?:\w+::)+(\w+);|namespace (\w+) = .*|(?:static )?constexpr [^=;{(]*\b(k[A-Z]\w*)\b.*)$)");
  Complaints complaints;
  const std::string code = without_literals(source.text);
  const std::vector<std::string> lines = lines_of(code);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_match(lines[i], match, kName)) continue;
    const std::string name = match[1].str() + match[2].str() + match[3].str();
    if (count_of_word(code, name) < 2) complaints.push_back(at(source, i + 1, name + " is used nowhere"));
  }
  return complaints;
}

// Usage examples stand in comments, indented by three blanks: a block of such lines is code if one of them ends with
// ';'. The formatter once joined them to sentences (ReflowComments). Then a statement begins behind another one, a line
// ends in the middle of a phrase, or a bracket stays open. "..." stands for what the reader fills in.
Complaints check_example(const Source& source, std::size_t first_line, const std::vector<std::string>& block) {
  static constexpr std::string_view kOpen = "({[";
  static constexpr std::string_view kClose = ")}]";
  static constexpr std::string_view kEnds = ";{}(),=&|+:?>";
  Complaints complaints;
  int depth = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const std::string code = bare_code(block[i]);
    bool good = code.empty() || kEnds.find(code.back()) != std::string_view::npos || code.starts_with("...") ||
                code.ends_with("...");
    for (std::size_t j = 0; j < code.size(); ++j) {
      if (kOpen.find(code[j]) != std::string_view::npos) ++depth;
      if (kClose.find(code[j]) != std::string_view::npos) --depth;
      if (code[j] == ';' && depth == 0 && j + 1 < code.size()) good = false;
    }
    if (!good) complaints.push_back(at(source, first_line + i, "a usage example is no code any more"));
  }
  if (depth != 0) complaints.push_back(at(source, first_line, "a bracket of a usage example stays open"));
  return complaints;
}

Complaints check_examples(const Source& source) {
  static const std::string kMark = "//   ";
  Complaints complaints;
  std::vector<std::string> block;
  bool code = false;
  const std::vector<std::string> lines = lines_of(source.text + "\n\n");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with(kMark)) {
      block.push_back(lines[i].substr(kMark.size()));
      code |= bare_code(block.back()).ends_with(";");
      continue;
    }
    if (code) {
      for (std::string& complaint : check_example(source, i - block.size() + 1, block)) {
        complaints.push_back(std::move(complaint));
      }
    }
    block.clear();
    code = false;
  }
  return complaints;
}

std::string repeated(std::string_view line, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += line;
  return text;
}

}  // namespace

TEST_CASE("lines are short, files too, and nothing is left unfinished") {
  expect_none(over_tree(is_code_or_script, check_lines));
  CHECK(check_lines({"planted.cpp", std::string(121, 'x')}).size() == 1);
  CHECK(check_lines({"planted.cpp", repeated("x\n", 801)}).size() == 1);
  CHECK(check_lines({"planted.cpp", std::string("#include \"") + "../x.h\""}).size() == 1);
  CHECK(check_lines({"planted.cpp", std::string("// FIX") + "ME"}).size() == 1);
}

TEST_CASE("names of test cases are such that ctest runs them") {
  expect_none(over_tree(is_code, check_case_names));
  const std::string begin = "TEST_" + std::string("CASE(");
  CHECK(check_case_names({"planted.cpp", begin + "\"one; two\") {"}).size() == 1);
  CHECK(check_case_names({"planted.cpp", begin + "\n    \"one; two\") {"}).size() == 1);
  CHECK(check_case_names({"planted.cpp", begin + "\"one, two\") { work(); }"}).empty());
}

TEST_CASE("no source has a name for itself that it does not use") {
  expect_none(over_tree([](const Source& source) { return source.path.extension() == ".cpp"; }, check_unused_names));
  CHECK(check_unused_names({"planted.cpp", "using io::Error;\n"}).size() == 1);
  CHECK(check_unused_names({"planted.cpp", "namespace fs = std::filesystem;\n"}).size() == 1);
  CHECK(check_unused_names({"planted.cpp", "constexpr std::size_t kMost = 3;\nint kMostly = 2;  // kMost\n"}).size() ==
        1);
  CHECK(check_unused_names({"planted.cpp", "using io::Error;\nError f();\n"}).empty());
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

TEST_CASE("usage examples are code, line by line") {
  expect_none(over_tree([](const Source& source) { return source.path.extension() == ".h" && is_product_code(source); },
                        check_examples));
  const auto complaints = [](const char* text) { return check_examples({"planted.h", text}).size(); };
  CHECK(complaints("//   auto a = f({.x = 1});  // why; and how\n//   for (int i = 0; i < 3; ++i) a(\";(\");\n") == 0);
  CHECK(complaints("//   auto a = f(1,\n//            2);\n//   if (!a) return;\n") == 0);
  CHECK(complaints("//   kTimm  not an example: (open\n") == 0);
  CHECK(complaints("//   f([&] { ... end ...; return 1; });\n//   for (int i : a) ...\n//   ... then as above\n") == 0);
  CHECK(complaints("//   auto a = f(1); if (!a) return;\n") == 1);
  CHECK(complaints("//   auto a = f(1);  // slower, never\n//   an error\n") == 1);
  CHECK(complaints("//   auto a = f(1;\n") == 1);
}

// Each version of it breaks some lines elsewhere. That of Debian 12 decides.
void need_formatter() {
  if (std::system("clang-format --version 2>&1 | grep -q 'version 14[.]'") != 0) skip("needs clang-format 14");
}

TEST_CASE("the formatter leaves comments alone") {
  need_formatter();
  const TempDir dir;
  const std::string text = "//   first(1);  // " + std::string(100, 'x') + " y\n//   second(2);\n";
  const fs::path file = dir.write("planted.h", text);
  const std::string style = "--style=file:" + (fs::path(HEADRACE_SOURCE_DIR) / ".clang-format").string();
  CHECK(std::system(("clang-format -i " + style + " " + file.string()).c_str()) == 0);
  CHECK(read(file) == text);
}

TEST_CASE("sources are formatted by clang-format") {
  need_formatter();
  const TempDir dir;
  std::string list;
  for (const Source& source : tree()) {
    if (is_code(source)) list += (fs::path(HEADRACE_SOURCE_DIR) / source.path).string() + "\n";
  }
  const fs::path file = dir.write("files", list);
  CHECK(std::system(("xargs clang-format --dry-run -Werror <" + file.string()).c_str()) == 0);
}

}  // namespace headrace::test::tidy_test
