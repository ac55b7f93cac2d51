// SPDX-License-Identifier: Apache-2.0
// What the program finds around it when it starts: descriptors, folders, daemons of others.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/mount.h>

#include "mount_fixture.h"
#include "process.h"

namespace surroundings_test {

using headrace::test::contains;
using headrace::test::Fixture;
using headrace::test::Outcome;
using headrace::test::read_file;
using headrace::test::skip;
using headrace::test::Tool;
using headrace::test::wait_until;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

}  // namespace

TEST_CASE("closed standard streams are /dev/null to every command, and a mount keeps its settings apart from its log") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const Outcome listed = fixture.tool.start_shell(fmt::format("exec {} ls --json <&- 2>&-", HEADRACE_BINARY))->wait();
  CHECK(listed.status == 0);
  CHECK(contains(listed.output, "\"mounts\""));
  for (const char* closed : {"<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    CAPTURE(closed);
    const std::string command =
        fmt::format("exec {} mount '{}' '{}' --ram 64M {}", HEADRACE_BINARY, fixture.source.string(), point, closed);
    REQUIRE(fixture.tool.start_shell(command)->wait().status == 0);
    CHECK(fixture.tool({"set", point, "ram=48M"}).status == 0);
    const auto worker = fixture.stat()["pid"].get<pid_t>();
    CHECK(::kill(worker, SIGKILL) == 0);
    json stat;
    CHECK(wait_until([&] { return (stat = fixture.stat())["pid"] != worker; }));
    CHECK(stat["mount"]["ram_bytes"] == 48 << 20);
    CHECK(fixture.tool({"unmount", "--force", point}).status == 0);
  }
}

TEST_CASE("a mount whose daemon listens in another runtime folder holds up no command for long") {
  const Fixture fixture;
  const fs::path second = fixture.data.path() / "second";
  fs::create_directory(second);
  struct Ending {
    const Fixture& fixture;
    const fs::path& second;
    ~Ending() { static_cast<void>(fixture.tool({"unmount", "--force", second.string()})); }
  } const ending{fixture, second};
  for (const fs::path& point : {fixture.mount_point, second}) {
    const std::string ram = point == second ? "32M" : "64M";  // or one daemon would show both
    REQUIRE(fixture.tool({"mount", fixture.source.string(), point.string(), "--ram", ram}).status == 0);
  }
  const Tool elsewhere;
  const auto asking = elsewhere.start_shell(
      fmt::format("{0} ls; {0} refresh '{1}'; {0} stat '{1}'; echo done", HEADRACE_BINARY, second.string()));
  // It took 10 s for each mount in the list, and 30 s to refresh one.
  CHECK(wait_until([&] { return contains(asking->output(), "done"); }));
  CHECK(contains(asking->output(), second.string()));
  CHECK(contains(asking->errors(), "is mounted, but its daemon does not listen"));
}

TEST_CASE("a cache folder without room is said when mounting, and the mount outlives its worker") {
  Fixture fixture;
  const fs::path folder = fixture.data.path() / "cache";
  fs::create_directory(folder);
  if (::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0) skip("needs the right to mount");
  struct Ending {
    const fs::path& folder;
    ~Ending() { ::umount2(folder.c_str(), MNT_DETACH); }
  } const ending{folder};
  std::ofstream(folder / "filler") << std::string(256 << 10, 'x');  // more than fits
  fixture.tool.set("HEADRACE_CACHE_DIR=" + folder.string());
  const std::string point = fixture.mount_point.string();
  const Outcome mounted = fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"});
  CAPTURE(mounted.errors);
  REQUIRE(mounted.status == 0);
  CHECK(std::count(mounted.errors.begin(), mounted.errors.end(), '\n') == 1);
  CHECK(contains(mounted.errors, "the cache folder " + folder.string() + " has no room"));
  CHECK(contains(mounted.errors, "HEADRACE_CACHE_DIR"));
  CHECK(contains(fixture.stat()["mount"]["fallbacks"].dump(), folder.string()));

  static_cast<void>(fixture.data.write("train/elk/0.jpg", "new"));  // another catalog than the one that is shown
  const auto worker = fixture.stat()["pid"].get<pid_t>();
  CHECK(::kill(worker, SIGKILL) == 0);
  CHECK(wait_until([&] { return fixture.tool({"stat", point}).status == 0 && fixture.stat()["pid"] != worker; }));
  CHECK(read_file(fixture.mount_point / "dog/7.jpg").size() == 7000);
  CHECK(fixture.tool({"refresh", point}).status == 0);  // a next generation, in memory as well
  CHECK(wait_until([&] { return read_file(fixture.mount_point / "elk/0.jpg") == "new"; }));
}

TEST_CASE("a data set of links that lead out of the source is mounted with a line that says what to do") {
  const Fixture fixture;
  const fs::path links = fixture.data.path() / "links" / "cat";
  fs::create_directories(links);
  for (int i = 0; i < 20; ++i) {
    const std::string name = std::to_string(i) + ".jpg";
    fs::create_symlink(fixture.source / "cat" / name, links / name);
  }
  std::ofstream(links / "own.jpg") << "own";
  const std::string point = fixture.mount_point.string();
  const Outcome mounted = fixture.tool({"mount", links.parent_path().string(), point, "--ram", "64M"});
  REQUIRE(mounted.status == 0);
  CAPTURE(mounted.errors);
  CHECK(std::count(mounted.errors.begin(), mounted.errors.end(), '\n') == 1);
  CHECK(contains(mounted.errors, "20 of 21 samples are links that lead out of " + links.parent_path().string()));
  const std::string folder = (fixture.source / "cat").string();
  CHECK(contains(mounted.errors, "headrace mount " + folder + " " + folder));
  CHECK(contains(fixture.tool({"doctor", point}).output, "20 of 21 samples are links"));
}

}  // namespace surroundings_test
