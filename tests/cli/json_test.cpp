// SPDX-License-Identifier: Apache-2.0
// What the commands print with --json is what cli/JSON.md says, member for member.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "process.h"

namespace json_test {

using headrace::test::Outcome;
using headrace::test::skip;
using headrace::test::TempDir;
using headrace::test::Tool;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

struct Member {
  std::string type;
  bool optional = false;
  bool seen = false;
};
using Schema = std::map<std::string, Member>;

// The table below "## headrace COMMAND --json": rows of | `member` | type[, optional] | words |
Schema documented(const std::string& command) {
  std::ifstream file(HEADRACE_SOURCE "/cli/JSON.md");
  Schema schema;
  bool here = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("## ", 0) == 0) here = line == "## headrace " + command + " --json";
    if (!here || line.rfind("| `", 0) != 0) continue;
    const std::size_t name_end = line.find('`', 3);
    const std::size_t type_end = line.find(" |", name_end + 4);
    const std::string type = line.substr(name_end + 4, type_end - name_end - 4);
    schema[line.substr(3, name_end - 3)] = {.type = type.substr(0, type.find(',')),
                                            .optional = type.find("optional") != std::string::npos};
  }
  REQUIRE_FALSE(schema.empty());
  return schema;
}

bool has_type(const json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return value.type_name() == type;
}

class Comparison {
 public:
  explicit Comparison(const std::string& command) : schema_(documented(command)) {}
  ~Comparison() {
    for (const auto& entry : schema_) {
      CAPTURE(entry.first);
      CHECK_MESSAGE((entry.second.seen || entry.second.optional), "documented in cli/JSON.md, but not printed");
    }
  }
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  void look_at(const json& value, const std::string& path) {
    const bool any_name = schema_.contains(path + ".*");
    if (any_name) schema_[path + ".*"].seen = true;
    if (any_name && schema_[path + ".*"].type == "object") return;
    if (value.is_object()) {
      for (const auto& [name, member] : value.items()) look_at(member, join(path, any_name ? "*" : name));
    } else if (value.is_array()) {
      for (const json& element : value) look_at(element, path + "[]");
    } else {
      look_at_leaf(value, path);
    }
  }

 private:
  static std::string join(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
  }

  void look_at_leaf(const json& value, const std::string& path) {
    CAPTURE(path);
    const auto found = schema_.find(path);
    CHECK_MESSAGE(found != schema_.end(), "printed, but not documented in cli/JSON.md");
    if (found == schema_.end()) return;
    found->second.seen = true;
    CHECK(has_type(value, found->second.type));
  }

  Schema schema_;
};

// `arguments` begin with the words of `command`.
void check_output(const Tool& tool, const std::string& command, std::vector<std::string> arguments,
                  const std::set<int>& statuses = {0}) {
  CAPTURE(command);
  arguments.insert(arguments.begin() + 1 + std::count(command.begin(), command.end(), ' '), "--json");
  const Outcome outcome = tool(arguments);
  CAPTURE(outcome.errors);
  REQUIRE(statuses.contains(outcome.status));
  const json document = json::parse(outcome.output, nullptr, false);
  REQUIRE_FALSE(document.is_discarded());
  Comparison(command).look_at(document, "");
}

}  // namespace

TEST_CASE("JSON of the commands on folders is as documented") {
  const Tool tool;
  const std::string photos = (tool.home() / "photos").string();
  const std::string tier = (tool.home() / "tier").string();
  REQUIRE(tool({"synth", photos, "--files", "12", "--classes", "2"}).status == 0);
  REQUIRE(tool({"warm", photos, "--ssd", tier + ":64M"}).status == 0);
  check_output(tool, "read", {"read", photos, "--ram", "16M", "--checksum"});
  check_output(tool, "doctor", {"doctor", photos, "--tier", tier}, {0, 1});  // 1: where something is missing here
  check_output(tool, "diagnose", {"diagnose", photos, "--seconds", "1"});
  check_output(tool, "simulate", {"simulate", photos});
  check_output(tool, "tier info", {"tier", "info", tier});
  check_output(tool, "tier ls", {"tier", "ls", tier});
  check_output(tool, "verify", {"verify", tier});
  check_output(tool, "cache ls", {"cache", "ls"});
  const std::string other = (tool.home() / "other").string() + ":64M";
  check_output(tool, "warm", {"warm", photos, "--ssd", other, "--check"}, {1});  // what is missing is said all the same
  check_output(tool, "warm", {"warm", photos, "--ssd", other, "--dry-run"});
  check_output(tool, "warm", {"warm", photos, "--ssd", other, "--index"});
}

TEST_CASE("JSON of the commands on mounts is as documented") {
  if (::access("/dev/fuse", R_OK | W_OK) != 0) skip("needs /dev/fuse");
  const Tool tool;
  const TempDir data;
  static_cast<void>(data.write("source/a/1.jpg", "x"));
  const std::string point = (data.path() / "mnt").string();
  fs::create_directory(point);
  const std::string tier = (tool.home() / "tier").string() + ":64M";
  const auto mounted = std::unique_ptr<const std::string, std::function<void(const std::string*)>>(
      &point, [&tool](const std::string* at) {
        static_cast<void>(tool({"unmount", "--force", *at}));
      });
  REQUIRE(tool({"mount", (data.path() / "source").string(), point, "--ram", "64M", "--ssd", tier, "--peers",
                "127.0.0.1:1", "--share", "64M"})
              .status == 0);
  static_cast<void>(std::ifstream(point + "/a/1.jpg").get());
  check_output(tool, "stat", {"stat", point});
  check_output(tool, "peers", {"peers", point});
  const std::string peers = tool({"peers", point}).output;
  CHECK(peers.find("127.0.0.1:1 ") != std::string::npos);
  CHECK(peers.find("down: ") != std::string::npos);
  check_output(tool, "ls", {"ls"});
  check_output(tool, "refresh", {"refresh", point});
  check_output(tool, "order show", {"order", "show", point});
  check_output(tool, "warm", {"warm", point, "--ram", "--dry-run"});
  check_output(tool, "warm", {"warm", point, "--ram"});
}

}  // namespace json_test
