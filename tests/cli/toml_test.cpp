// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/options/toml.h"

#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace toml_test {
namespace {

using headrace::cli::parse_toml;
using headrace::cli::Setting;

// As "name: value | value" in brackets where it is a list, one per line.
std::string read(const std::string& text) {
  const auto settings = parse_toml(text);
  if (!settings) return settings.error().context;
  std::string shown;
  for (const Setting& setting : *settings) {
    std::string values;
    for (const std::string& value : setting.values) values += (values.empty() ? "" : " | ") + value;
    shown += setting.name + ": " + (setting.is_list ? "[" + values + "]" : values) + "\n";
  }
  return shown;
}

bool begins(const std::string& text, const std::string& start) {
  return text.starts_with(start);
}

TEST_CASE("settings are read as TOML has them") {
  CHECK(read("") == "");
  CHECK(read("# nothing\n\n   \n") == "");
  CHECK(read("a = \"x\"\nb='y'") == "a: x\nb: y\n");
  CHECK(read("source = \"/data/a # b\"  # c\n") == "source: /data/a # b\n");
  CHECK(read("source = '/data/\"a\" # b'\r\nram = '1G'\r\n") == "source: /data/\"a\" # b\nram: 1G\n");
  CHECK(read("a = \"\\\"\\\\ \\t\\u00e4\\U0001F600\"") == "a: \"\\ \t\xC3\xA4\xF0\x9F\x98\x80\n");
  CHECK(read("a = '\\u00e4'") == "a: \\u00e4\n");
  CHECK(read("a = ''") == "a: \n");
  CHECK(read("allow-other = true\nepoch = 3\nshare = 0.5\n") == "allow-other: true\nepoch: 3\nshare: 0.5\n");
  CHECK(read("\"allow-other\" = false\n") == "allow-other: false\n");
  CHECK(read("\xEF\xBB\xBFram = 16G\n") == "ram: 16G\n");
  CHECK(read("ram = 16G# of 64\ncache = 40%") == "ram: 16G\ncache: 40%\n");
}

TEST_CASE("lists go over several lines, with comments and a comma at their end") {
  CHECK(read("ssd = []\n") == "ssd: []\n");
  CHECK(read("ssd = ['/a:1G,free=10%']\n") == "ssd: [/a:1G,free=10%]\n");
  CHECK(read("ssd = [ # two\n  \"/a # 1:1G\",  # one\n  '/b]:2G',\n]\nepoch = 1\n") ==
        "ssd: [/a # 1:1G | /b]:2G]\nepoch: 1\n");
  CHECK(read("n = [1,2 , 3]") == "n: [1 | 2 | 3]\n");
}

TEST_CASE("what is no setting is refused with its line and a remedy") {
  CHECK(begins(read("a = 1\nram\n"), "line 2: 'ram' sets nothing; write name = value"));
  CHECK(begins(read("= 1\n"), "line 1: '= 1' sets nothing"));
  CHECK(begins(read("ram =\n"), "line 1: 'ram' has no value"));
  CHECK(begins(read("ram = # 1G\n"), "line 1: 'ram' has no value"));
  CHECK(begins(read("a = \"x\n"), "line 1: a text has no closing \""));
  CHECK(begins(read("a = 'x\nb = 1'\n"), "line 1: a text has no closing '"));
  CHECK(begins(read("\n\na = /data/my folder\n"), "line 3: 'folder' follows the value; put a text into quotes"));
  CHECK(begins(read("a = 1 b = 2\n"), "line 1: 'b = 2' follows the value"));
  CHECK(begins(read("a = \"C:\\data\"\n"), "line 1: a \\ in double quotes"));
  CHECK(begins(read("a = \"\\ud800\"\n"), "line 1: a \\ in double quotes"));
  CHECK(begins(read("a = \"\\u12"), "line 1: a \\ in double quotes"));
  CHECK(begins(read("[tiers]\nssd = 1\n"), "line 1: [tiers]: there are no sections"));
  CHECK(begins(read("a = 1\na = 2\n"), "line 2: 'a' is set twice"));
  CHECK(begins(read("a = [1, 2\nb = 1\n"), "line 2: the list 'a', which begins in line 1, has no ]"));
  CHECK(begins(read("a = [1 2]\n"), "line 1: the list 'a'"));
  CHECK(begins(read("a = [[1]]\n"), "line 1: 'a' has no value"));
  CHECK(begins(read("a = [,]\n"), "line 1: 'a' has no value"));
  CHECK(begins(read("a = ["), "line 1: the list 'a'"));
  CHECK(begins(read("a = [1,"), "line 1: the list 'a'"));
  CHECK(begins(read("a = \"\"\"x\"\"\"\n"), "line 1: a text of several lines"));
}

TEST_CASE("whatever stands in a file, reading it comes to an end") {
  std::mt19937 random(1);
  const std::string letters = "a1=[]\"'\\#,\n\r\t u0-.";
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (auto left = random() % 24; left > 0; --left) text.push_back(letters[random() % letters.size()]);
    CAPTURE(text);
    const auto settings = parse_toml(text);
    CHECK((settings || begins(settings.error().context, "line ")));
  }
}

}  // namespace

}  // namespace toml_test
