// SPDX-License-Identifier: Apache-2.0
// Several mounts on one machine: of one data set, which one daemon shows, and of several, which share the memory.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/mount.h>
#include <unistd.h>

#include "headrace/cli/daemon/neighbours.h"
#include "headrace/io/memory_limit.h"

#include "mount_fixture.h"
#include "process.h"

namespace headrace::test::many_mounts_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// One data set and several mount points. Only root can show a mount at a second place.
struct ManyMounts : Fixture {
  explicit ManyMounts(int count) {
    if (::geteuid() != 0) skip("needs root");
    for (int i = 0; i < count; ++i) {
      points.push_back(data.path() / ("m" + std::to_string(i)));
      fs::create_directory(points.back());
    }
  }
  ~ManyMounts() {
    for (const fs::path& point : points) static_cast<void>(tool({"unmount", "--force", point.string()}));
  }
  ManyMounts(const ManyMounts&) = delete;
  ManyMounts& operator=(const ManyMounts&) = delete;

  [[nodiscard]] Outcome mount(const fs::path& point, const std::vector<std::string>& more = {"--ram", "64M"}) const {
    std::vector<std::string> arguments = {"mount", source.string(), point.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return tool(arguments);
  }
  [[nodiscard]] json stat_at(const fs::path& point) const {
    const Outcome outcome = tool({"stat", point.string(), "--json"});
    CAPTURE(outcome.errors);
    REQUIRE(outcome.status == 0);
    return json::parse(outcome.output);
  }
  [[nodiscard]] json listed() const {
    json all = json::parse(tool({"ls", "--json"}).output)["mounts"];
    json own = json::array();
    for (json& each : all) {
      if (each["source"].get<std::string>().starts_with(data.path().string())) own.push_back(each);
    }
    return own;
  }

  std::vector<fs::path> points;
};

TEST_CASE("eight mounts of one data set that start at once have one daemon, and end one by one") {
  const ManyMounts many(8);
  std::vector<std::unique_ptr<Child>> starting;
  for (const fs::path& point : many.points) {
    starting.push_back(many.tool.start({"mount", many.source.string(), point.string(), "--ram", "64M"}));
  }
  for (const auto& each : starting) REQUIRE(each->wait().status == 0);
  const json stat = many.stat_at(many.points.front());
  for (const fs::path& point : many.points) {
    CHECK(is_mounted(point));
    CHECK(many.stat_at(point)["supervisor_pid"] == stat["supervisor_pid"]);
    many.check_equal_trees(point);
  }
  const json listed = many.listed();
  REQUIRE(listed.size() == 1);
  CHECK(listed[0]["also_at"].size() == 7);

  for (std::size_t i = 0; i + 1 < many.points.size(); ++i) {
    const Outcome unmounted = many.tool({"unmount", many.points[i].string()});
    CAPTURE(unmounted.errors);
    CHECK(unmounted.status == 0);  // although others may have read it just now
    CHECK_FALSE(is_mounted(many.points[i]));
    many.check_equal_trees(many.points.back());
  }
  CHECK_FALSE(has_ended(stat["pid"].get<pid_t>()));
  CHECK(many.tool({"unmount", "--force", many.points.back().string()}).status == 0);
  CHECK(has_ended(stat["supervisor_pid"].get<pid_t>()));
  CHECK(fs::is_empty(many.tool.home() / "run"));
}

TEST_CASE("when the first of two places is unmounted, the other is read on, and outlives the worker") {
  const ManyMounts many(2);
  REQUIRE(many.mount(many.points[0]).status == 0);
  const Outcome second = many.mount(many.points[1]);
  CHECK(second.status == 0);
  CHECK(contains(second.errors, "by the same daemon"));
  SUBCASE("by headrace") {
    CHECK(many.tool({"unmount", many.points[0].string()}).status == 0);
  }
  SUBCASE("by somebody else") {
    CHECK(::umount2(many.points[0].c_str(), MNT_DETACH) == 0);
  }
  const std::string left = many.points[1].string();
  many.check_equal_trees(left);
  REQUIRE(::kill(many.stat_at(left)["pid"].get<pid_t>(), SIGKILL) == 0);
  many.check_equal_trees(left);
  REQUIRE(wait_until([&] { return many.tool({"stat", left}).status == 0; }));
  CHECK(many.stat_at(left)["mount"]["takeovers"] == 1);
  many.check_equal_trees(left);
}

TEST_CASE("a daemon that is told to end ends all places that it shows") {
  const ManyMounts many(3);
  for (const fs::path& point : many.points) REQUIRE(many.mount(point).status == 0);
  const pid_t supervisor = many.stat_at(many.points[1])["supervisor_pid"];
  REQUIRE(::kill(supervisor, SIGTERM) == 0);
  REQUIRE(wait_until([&] { return has_ended(supervisor); }));
  for (const fs::path& point : many.points) CHECK_FALSE(is_mounted(point));
  // A link to the socket of a daemon that is gone is in nobody's way.
  REQUIRE(many.mount(many.points[2]).status == 0);
  many.check_equal_trees(many.points[2]);
}

TEST_CASE("a place that somebody works in is not unmounted without --force, though the daemon goes on") {
  const ManyMounts many(2);
  for (const fs::path& point : many.points) REQUIRE(many.mount(point).status == 0);
  const std::string used = many.points[1].string();
  const auto user =
      many.tool.start_shell("cd " + used + " && touch " + (many.tool.home() / "in").string() + " && exec sleep 1000");
  REQUIRE(wait_until([&] { return fs::exists(many.tool.home() / "in"); }));
  const Outcome refused = many.tool({"unmount", used});
  CHECK(refused.status == 1);
  CHECK(contains(refused.errors, "works in it"));
  CHECK(many.tool({"unmount", many.points[0].string()}).status == 0);
  many.check_equal_trees(many.points[1]);
  CHECK(many.tool({"unmount", "--force", used}).status == 0);
}

TEST_CASE("a mount that is shown by the daemon of another has what the source has by then, as one of its own would") {
  const ManyMounts many(2);
  REQUIRE(many.mount(many.points[0]).status == 0);
  static_cast<void>(many.data.write("train/cat/3.jpg", "changed"));
  static_cast<void>(many.data.write("train/cat/new.jpg", "new"));
  const Outcome second = many.mount(many.points[1]);
  CHECK(contains(second.errors, "by the same daemon"));
  CHECK(read_file(many.points[1] / "cat" / "new.jpg") == "new");
  CHECK(read_file(many.points[1] / "cat" / "3.jpg") == "changed");
  CHECK(read_file(many.points[0] / "cat" / "new.jpg") == "new");
}

TEST_CASE("a mount of the same data set with other options says which, and has a daemon of its own") {
  const ManyMounts many(4);
  REQUIRE(many.mount(many.points[0]).status == 0);
  const Outcome other = many.mount(many.points[1], {"--ram", "32M", "--order", "sequential"});
  CHECK(other.status == 0);
  CHECK(contains(other.errors, "(--order, --ram)"));
  CHECK(many.stat_at(many.points[1])["pid"] != many.stat_at(many.points[0])["pid"]);
  many.check_equal_trees(many.points[1]);
  // How much is logged makes no difference, and who names no memory takes what there is.
  CHECK(many.mount(many.points[2], {"--log-level", "debug"}).status == 0);
  CHECK(many.stat_at(many.points[2])["pid"] == many.stat_at(many.points[0])["pid"]);
  // The same words from elsewhere are another file.
  const std::string list = many.data.write("here/list", "cat/3.jpg\n").parent_path().string();
  const auto from = [&](const std::string& folder, const fs::path& point) {
    return many.tool.start_shell("cd " + folder + " && exec " HEADRACE_BINARY " mount " + many.source.string() + " " +
                                 point.string() + " --ram 64M --samples list");
  };
  REQUIRE(from(list, many.points[3])->wait().status == 0);
  CHECK(many.stat_at(many.points[3])["data_set"]["samples"] == 1);
  static_cast<void>(many.data.write("there/list", "cat/3.jpg\ncat/4.jpg\n"));
  const fs::path last = many.mount_point;
  REQUIRE(from((many.data.path() / "there").string(), last)->wait().status == 0);
  CHECK(many.stat_at(last)["data_set"]["samples"] == 2);
}

TEST_CASE("a place whose first daemon is shown elsewhere takes another one, and both are found where they are shown") {
  const ManyMounts many(3);
  for (const fs::path& point : {many.points[0], many.points[1]}) REQUIRE(many.mount(point).status == 0);
  const pid_t first = many.stat_at(many.points[0])["supervisor_pid"];
  SUBCASE("by headrace") {
    CHECK(many.tool({"unmount", many.points[0].string()}).status == 0);
    CHECK(many.tool({"unmount", many.points[0].string()}).status == 0);  // and does not wait for it
  }
  SUBCASE("by somebody else") {
    CHECK(::umount2(many.points[0].c_str(), MNT_DETACH) == 0);
  }
  static_cast<void>(many.data.write("val/cat/3.jpg", "another data set"));
  const Outcome other =
      many.tool({"mount", (many.data.path() / "val").string(), many.points[0].string(), "--ram", "32M"});
  CAPTURE(other.errors);
  REQUIRE(other.status == 0);
  const json second = many.stat_at(many.points[0]);
  CHECK(second["supervisor_pid"] != first);
  CHECK(many.stat_at(many.points[1])["supervisor_pid"] == first);
  // The places stay whose they are when a worker is replaced.
  REQUIRE(::kill(many.stat_at(many.points[1])["pid"].get<pid_t>(), SIGKILL) == 0);
  REQUIRE(wait_until([&] { return many.tool({"stat", many.points[1].string()}).status == 0; }));
  CHECK(many.stat_at(many.points[1])["supervisor_pid"] == first);
  CHECK(many.stat_at(many.points[0])["pid"] == second["pid"]);
  CHECK(read_file(many.points[0] / "cat" / "3.jpg") == "another data set");
  CHECK(many.mount(many.points[2]).status == 0);
  CHECK(many.stat_at(many.points[2])["supervisor_pid"] == first);
  for (const fs::path& point : many.points) CHECK(many.tool({"unmount", "--force", point.string()}).status == 0);
  CHECK(has_ended(first));
  CHECK(fs::is_empty(many.tool.home() / "run"));
}

TEST_CASE("a place that somebody else has unmounted is unmounted with --force, and its daemon goes on elsewhere") {
  const ManyMounts many(2);
  for (const fs::path& point : many.points) REQUIRE(many.mount(point).status == 0);
  const pid_t supervisor = many.stat_at(many.points[0])["supervisor_pid"];
  std::size_t gone = 0;
  SUBCASE("the first place") {
    gone = 0;
  }
  SUBCASE("the second place") {
    gone = 1;
  }
  REQUIRE(::umount2(many.points[gone].c_str(), MNT_DETACH) == 0);
  CHECK(many.tool({"unmount", "--force", many.points[gone].string()}).status == 0);
  CHECK_FALSE(has_ended(supervisor));
  many.check_equal_trees(many.points[1 - gone]);
  CHECK(many.stat_at(many.points[1 - gone])["supervisor_pid"] == supervisor);
}

TEST_CASE("a first place that was unmounted shows the same data set again, by the daemon that is shown elsewhere") {
  const ManyMounts many(2);
  for (const fs::path& point : many.points) REQUIRE(many.mount(point).status == 0);
  CHECK(many.tool({"unmount", many.points[0].string()}).status == 0);
  const Outcome again = many.mount(many.points[0]);
  CHECK(again.status == 0);
  CHECK(contains(again.errors, "by the same daemon"));
  CHECK(many.stat_at(many.points[0])["supervisor_pid"] == many.stat_at(many.points[1])["supervisor_pid"]);
  CHECK(many.tool({"unmount", many.points[1].string()}).status == 0);
  many.check_equal_trees(many.points[0]);
}

TEST_CASE("a mount that covers its source is shown elsewhere, and what replaces a source is another one") {
  const ManyMounts many(2);
  REQUIRE(many.mount(many.source).status == 0);
  const Outcome second = many.mount(many.points[0]);
  CHECK(contains(second.errors, "by the same daemon"));
  CHECK(read_file(many.points[0] / "cat" / "3.jpg") == std::string(3000, 'd'));
  CHECK(many.tool({"unmount", "--force", many.source.string()}).status == 0);
  CHECK(read_file(many.points[0] / "cat" / "3.jpg") == std::string(3000, 'd'));

  fs::rename(many.source, many.data.path() / "old");
  static_cast<void>(many.data.write("train/cat/3.jpg", "new"));
  REQUIRE(many.mount(many.points[1]).status == 0);
  CHECK(read_file(many.points[1] / "cat" / "3.jpg") == "new");
  CHECK(read_file(many.points[0] / "cat" / "3.jpg") == std::string(3000, 'd'));
}

TEST_CASE("a mount that was given no memory takes half of what other mounts leave of one half") {
  const ManyMounts many(1);
  REQUIRE(many.mount(many.mount_point, {"--ram", "64M"}).status == 0);
  static_cast<void>(many.data.write("val/cat/3.jpg", "another data set"));
  const Outcome second = many.tool({"mount", (many.data.path() / "val").string(), many.points[0].string()});
  REQUIRE(second.status == 0);
  const auto given = many.stat_at(many.points[0])["mount"]["ram_bytes"].get<std::uint64_t>();
  const std::uint64_t half = io::memory_limit_bytes() / 2;
  CHECK(given == (half - (64 << 20)) / 2);
}

TEST_CASE("a daemon tells the others what it holds") {
  cli::Neighbour held{.place = {}, .mount_point = "/mnt/a", .source_name = {}, .words = {"--ram=1G"}};
  held.budget_bytes = 3;
  held.held_bytes = 2;
  held.worker = ::getpid();
  CHECK(cli::budget_of({held, held}) == 6);
  CHECK(cli::held_by({held, held}) == 4);
  CHECK(cli::to_json(held)["words"][0] == "--ram=1G");
}

}  // namespace
}  // namespace headrace::test::many_mounts_test
