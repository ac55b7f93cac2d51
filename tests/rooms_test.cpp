// SPDX-License-Identifier: Apache-2.0
// Holds the code to what ARCHITECTURE.md says of it: the rooms of each layer and who may include whom, the threads, and
// the files that a change touches. The tables are read from there, so that neither can change without the other. Each
// check is also run on planted faults.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "support/source_tree.h"

namespace headrace::test::rooms_test {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDocument = "ARCHITECTURE.md";
// Layers that are cut into rooms. io, decode and capi have one each, and internal/ for what is private.
constexpr std::array<std::string_view, 3> kLayersWithRooms = {"cache", "fuse", "cli"};
constexpr std::size_t kChanges = 10;  // rows of the table for newcomers, at least

const std::string& document() {
  return in_tree(kDocument).text;
}

// The words in `backticks` of a text.
std::vector<std::string> quoted(const std::string& text) {
  static const std::regex kQuoted("`([^`]+)`");
  std::vector<std::string> words;
  for (std::sregex_iterator word(text.begin(), text.end(), kQuoted), end; word != end; ++word) {
    words.push_back((*word)[1]);
  }
  return words;
}

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream stream(row.substr(1));
  for (std::string cell; std::getline(stream, cell, '|');) cells.push_back(cell);
  return cells;
}

// The rows of the table whose head begins with `head`, without the head.
std::vector<std::vector<std::string>> table(const std::string& text, const std::string& head) {
  std::vector<std::vector<std::string>> rows;
  bool inside = false;
  for (const std::string& line : lines_of(text)) {
    if (!line.starts_with("|")) inside = false;
    if (inside && !line.starts_with("|--")) rows.push_back(cells_of(line));
    if (line.starts_with("| " + head)) inside = true;
  }
  return rows;
}

// The rooms of one layer, the lowest first; the root of the layer is the highest of them.
struct Rooms {
  std::string layer;
  std::map<std::string, std::size_t> height;   // of a room, by its folder
  std::map<std::string, std::string> room_of;  // of a header at the layer's root
  static constexpr std::string_view kRoot = "root";

  // Where a file of the layer belongs; its path begins below the layer's folder. Empty: no table says.
  [[nodiscard]] std::string room(const fs::path& path) const {
    if (path.has_parent_path()) return height.contains(path.begin()->string()) ? path.begin()->string() : "";
    if (path.extension() != ".h") return std::string(kRoot);
    const auto found = room_of.find(path.string());
    return found == room_of.end() ? "" : found->second;
  }
};

// Read from | rooms of `cache/` | public headers | ..., whose rows are | `catalog/` | `catalog.h`, `listing.h` | ...
Rooms rooms_in(const std::string& text, const std::string& layer) {
  Rooms rooms{.layer = layer};
  for (const std::vector<std::string>& row : table(text, "rooms of `" + layer + "/`")) {
    std::string room = quoted(row.at(0)).empty() ? std::string(Rooms::kRoot) : quoted(row[0])[0];
    if (room.ends_with("/")) room.pop_back();
    rooms.height.emplace(room, rooms.height.size());
    for (const std::string& header : quoted(row.at(1))) rooms.room_of.emplace(header, room);
  }
  rooms.height.emplace(std::string(Rooms::kRoot), rooms.height.size());
  return rooms;
}

struct Include {
  std::size_t line;
  std::string layer;
  fs::path path;  // below the layer's folder
};

std::vector<Include> includes_of(const Source& source) {
  static const std::regex kInclude(R"re(^\s*#include\s*["<]headrace/(\w+)/([^">]+)[">])re");
  std::vector<Include> found;
  const std::vector<std::string> lines = lines_of(source.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (std::regex_search(lines[i], match, kInclude)) found.push_back({i + 1, match[1], match[2].str()});
  }
  return found;
}

// A room includes itself and the rooms below it. So there is no circle either.
Complaints check_rooms(const Rooms& rooms, const Source& source) {
  const std::string own = rooms.room(source.path.lexically_relative(rooms.layer));
  if (own.empty()) return {at(source, 1, "in no room that ARCHITECTURE.md lists")};
  Complaints complaints;
  for (const Include& include : includes_of(source)) {
    if (include.layer != rooms.layer || include.path == "version.h") continue;  // version.h: made by the build
    const std::string other = rooms.room(include.path);
    if (other.empty() || rooms.height.at(other) > rooms.height.at(own)) {
      complaints.push_back(at(source, include.line, own + " includes upwards: " + include.path.string()));
    }
  }
  return complaints;
}

// Another layer's rooms are its own matter. Tests and benchmarks look at parts and may enter.
Complaints check_other_layers(const Source& source) {
  Complaints complaints;
  for (const Include& include : includes_of(source)) {
    if (include.layer != layer_of(source) && include.path.has_parent_path()) {
      complaints.push_back(at(source, include.line, "includes a room of another layer: " + include.path.string()));
    }
  }
  return complaints;
}

// The words between PUBLIC_HEADERS (PUBLIC_HEADER of a target) and the next word in capitals.
std::set<std::string> public_headers_in(const std::string& cmake) {
  std::set<std::string> headers;
  std::istringstream words(cmake);
  bool inside = false;
  for (std::string word; words >> word;) {
    if (inside && word.find(".h") == std::string::npos) break;
    if (inside) headers.insert(word.substr(0, word.find(')')));
    if (word == "PUBLIC_HEADERS" || word == "PUBLIC_HEADER") inside = true;
  }
  return headers;
}

bool is_at_root_of_installed_layer(const Source& source) {
  return is_product_code(source) && layer_of(source) != "cli" && source.path.extension() == ".h" &&
         source.path.parent_path() == layer_of(source);
}

// A header at a layer's root is installed, and so is all that it includes.
Complaints check_public(const std::set<std::string>& public_headers, const Source& source) {
  Complaints complaints;
  if (!public_headers.contains(source.path.filename().string())) {
    complaints.push_back(at(source, 1, "at the layer's root, but not in PUBLIC_HEADERS"));
  }
  for (const Include& include : includes_of(source)) {
    if (!include.path.has_parent_path()) continue;
    complaints.push_back(at(source, include.line, "public, but includes the private " + include.path.string()));
  }
  return complaints;
}

// hr-fuse- and hr-fuse-N are one name.
std::string thread_name(std::string name) {
  if (name.ends_with("-N")) name.pop_back();
  if (name.ends_with("-")) name.pop_back();
  return name;
}

std::set<std::string> threads_in_code(const Source& source) {
  static const std::regex kName(R"re("(hr-[a-z-]+))re");
  std::set<std::string> names;
  for (const std::string& line : lines_of(source.text)) {
    const std::string code = line.substr(0, line.find("//"));
    for (std::sregex_iterator name(code.begin(), code.end(), kName), end; name != end; ++name) {
      names.insert(thread_name((*name)[1]));
    }
  }
  return names;
}

std::set<std::string> threads_in_table(const std::string& text) {
  std::set<std::string> names;
  for (const std::vector<std::string>& row : table(text, "thread |")) {
    for (const std::string& name : quoted(row.at(0))) names.insert(thread_name(name));
  }
  return names;
}

Complaints check_threads(const std::set<std::string>& in_code, const std::set<std::string>& in_table) {
  Complaints complaints;
  for (const std::string& name : in_code) {
    if (!in_table.contains(name)) complaints.push_back(name + ": a thread that ARCHITECTURE.md does not list");
  }
  for (const std::string& name : in_table) {
    if (!in_code.contains(name)) complaints.push_back(name + ": a thread that no code has");
  }
  return complaints;
}

// What looks like a path of this repository: it begins with one of its folders.
Complaints check_paths(const fs::path& root, const std::string& text) {
  static const std::regex kPath(R"(^(io|cache|fuse|decode|capi|python|cli|tests|bench|\.ci)/[\w./-]*$)");
  Complaints complaints;
  for (const std::string& word : quoted(text)) {
    if (std::regex_match(word, kPath) && !fs::exists(root / word)) complaints.push_back("no such file: " + word);
  }
  return complaints;
}

Complaints check_changes(const std::string& text) {
  Complaints complaints;
  const auto rows = table(text, "change |");
  if (rows.size() < kChanges) complaints.push_back("fewer changes than a newcomer asks for");
  for (const std::vector<std::string>& row : rows) {
    if (row.size() < 2 || quoted(row[1]).empty()) complaints.push_back("no files for:" + row[0]);
  }
  return complaints;
}

bool is_of_layer(const Source& source, std::string_view layer) {
  return is_product_code(source) && layer_of(source) == layer;
}

}  // namespace

TEST_CASE("a room includes only rooms below it") {
  for (const std::string_view layer : kLayersWithRooms) {
    const Rooms rooms = rooms_in(document(), std::string(layer));
    CHECK(rooms.height.size() > 2);
    expect_none(over_tree([&](const Source& source) { return is_of_layer(source, layer); },
                          [&](const Source& source) { return check_rooms(rooms, source); }));
    for (const auto& [header, room] : rooms.room_of) {
      CHECK_MESSAGE(!in_tree(fs::path(layer) / header).text.empty(), "no such header: ", layer, "/", header);
    }
    for (const auto& [room, height] : rooms.height) {
      if (room != Rooms::kRoot) CHECK_MESSAGE(fs::exists(fs::path(HEADRACE_SOURCE_DIR) / layer / room), room);
    }
  }
}

TEST_CASE("an include of a room above is found") {
  const Rooms rooms = rooms_in(
      "| rooms of `cache/` | public headers | owns |\n|---|---|---|\n| `low/` | `low.h` | x |\n| `high/` | `high.h` | "
      "y |\n",
      "cache");
  const auto count = [&](const char* path, const char* text) { return check_rooms(rooms, {path, text}).size(); };
  CHECK(count("cache/high/a.cpp", "#include \"headrace/cache/low/b.h\"\n#include \"headrace/cache/low.h\"\n") == 0);
  CHECK(count("cache/low/a.cpp", "#include \"headrace/cache/high/b.h\"\n") == 1);
  CHECK(count("cache/low/a.cpp", "#include \"headrace/cache/high.h\"\n") == 1);
  CHECK(count("cache/low.h", "#include \"headrace/cache/high.h\"\n") == 1);
  CHECK(count("cache/low/a.cpp", "#include \"headrace/cache/unlisted.h\"\n") == 1);
  CHECK(count("cache/unlisted/a.cpp", "") == 1);
  CHECK(count("cache/unlisted.h", "") == 1);
}

// It takes as long to compile as the rest of such a source (cli/README.md).
TEST_CASE("CLI11 is included by one source of the product") {
  std::vector<std::string> sources;
  for (const Source& source : tree()) {
    if (is_product_code(source) && source.text.find("#include <CLI/") != std::string::npos) {
      sources.push_back(source.path.string());
    }
  }
  CHECK(sources == std::vector<std::string>{"cli/options/parser.cpp"});
}

TEST_CASE("no layer includes another one's rooms") {
  expect_none(over_tree(is_product_code, check_other_layers));
  CHECK(check_other_layers({"fuse/planted.cpp", "#include \"headrace/cache/disk/segment.h\"\n"}).size() == 1);
  CHECK(check_other_layers({"fuse/planted.cpp", "#include \"headrace/cache/store.h\"\n"}).empty());
}

TEST_CASE("a header is public on purpose, and so is what it includes") {
  expect_none(over_tree(is_at_root_of_installed_layer, [](const Source& source) {
    return check_public(public_headers_in(in_tree(fs::path(layer_of(source)) / "CMakeLists.txt").text), source);
  }));
  const std::set<std::string> listed =
      public_headers_in("x(\n SOURCES\n a.cpp\n PUBLIC_HEADERS\n a.h\n b.h\n DEPENDS c)");
  CHECK(listed == std::set<std::string>{"a.h", "b.h"});
  CHECK(check_public(listed, {"io/a.h", "#include \"headrace/io/b.h\"\n"}).empty());
  CHECK(check_public(listed, {"io/c.h", ""}).size() == 1);
  CHECK(check_public(listed, {"io/a.h", "#include \"headrace/io/internal/c.h\"\n"}).size() == 1);
}

TEST_CASE("ARCHITECTURE.md lists the threads that there are") {
  std::set<std::string> in_code;
  for (const Source& source : tree()) {
    if (is_product_code(source)) in_code.merge(threads_in_code(source));
  }
  CHECK(in_code.size() > 10);
  expect_none(check_threads(in_code, threads_in_table(document())));
  const std::string planted = "| thread | owner |\n|---|---|\n| `hr-a-N`, `hr-b` | x |\n";
  CHECK(threads_in_table(planted) == std::set<std::string>{"hr-a", "hr-b"});
  CHECK(threads_in_code({"io/planted.cpp", "f(\"hr-a-\" + n);  // not \"hr-c\"\n"}) == std::set<std::string>{"hr-a"});
  CHECK(check_threads({"hr-a", "hr-c"}, {"hr-a", "hr-b"}).size() == 2);
}

TEST_CASE("the files that ARCHITECTURE.md names exist") {
  expect_none(check_paths(HEADRACE_SOURCE_DIR, document()));
  expect_none(check_changes(document()));
  CHECK(check_paths(HEADRACE_SOURCE_DIR, "see `cache/no_such.cpp` and `cache/README.md`").size() == 1);
  CHECK(check_changes("| change | files |\n|---|---|\n| a new planet | none |\n").size() == 2);
}

}  // namespace headrace::test::rooms_test
