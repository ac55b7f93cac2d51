// SPDX-License-Identifier: Apache-2.0
// What the program finds around it when it starts: descriptors, folders, daemons of others.
#include <csignal>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mount_fixture.h"
#include "process.h"

namespace surroundings_test {

using headrace::test::contains;
using headrace::test::Fixture;
using headrace::test::Outcome;
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
    CHECK(fixture.tool({"set", point, "ram=32M"}).status == 0);
    const auto worker = fixture.stat()["pid"].get<pid_t>();
    CHECK(::kill(worker, SIGKILL) == 0);
    json stat;
    CHECK(wait_until([&] { return (stat = fixture.stat())["pid"] != worker; }));
    CHECK(stat["mount"]["ram_bytes"] == 32 << 20);
    CHECK(fixture.tool({"unmount", "--force", point}).status == 0);
  }
}

}  // namespace surroundings_test
