// SPDX-License-Identifier: Apache-2.0
// The memcached that a mount starts for the nodes that share, and how these know each other.
#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

#include "mount_fixture.h"
#include "process.h"

namespace share_test {
namespace {

namespace fs = std::filesystem;
using headrace::io::UniqueFd;
using headrace::test::contains;
using headrace::test::Fixture;
using headrace::test::is_mounted;
using headrace::test::Outcome;
using headrace::test::read_file;
using headrace::test::skip;
using headrace::test::wait_until;
using nlohmann::json;

sockaddr_in on_loopback(std::uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

std::uint16_t free_port() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = on_loopback(0);
  socklen_t size = sizeof address;
  REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.sin_port);
}

// A mount that shares with itself alone.
struct Sharer : Fixture {
  Sharer() {
    if (!fs::exists("/usr/bin/memcached")) skip("the package memcached is missing");
  }
  [[nodiscard]] Outcome mount(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {
        "mount", source.string(), mount_point.string(), "--ram", "20M", "--peers", name(), "--share", "64M"};
    words.insert(words.end(), more.begin(), more.end());
    return tool(words);
  }
  [[nodiscard]] std::string name() const { return "127.0.0.1:" + std::to_string(port); }
  [[nodiscard]] bool listens() const { return connect().valid(); }
  [[nodiscard]] UniqueFd connect() const {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = on_loopback(port);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
    return fd;
  }
  // Of the memcached that answers; 0: none does.
  [[nodiscard]] pid_t memcached_pid() const {
    const UniqueFd fd = connect();
    const std::string question = "stats\r\n";
    if (!fd.valid() || ::send(fd.get(), question.data(), question.size(), MSG_NOSIGNAL) <= 0) return 0;
    std::string answer;
    char part[4096];
    while (!contains(answer, "END\r\n")) {
      const ssize_t count = ::recv(fd.get(), part, sizeof part, 0);
      if (count <= 0) return 0;
      answer.append(part, static_cast<std::size_t>(count));
    }
    const std::string before = "STAT pid ";
    return std::stoi(answer.substr(answer.find(before) + before.size()));
  }

  std::uint16_t port = free_port();
};

}  // namespace

TEST_CASE("share: a mount starts its node's memcached, which outlives a worker and ends with the mount") {
  const Sharer sharer;
  const Outcome mounted = sharer.mount();
  CAPTURE(mounted.errors);
  REQUIRE(mounted.status == 0);
  CHECK(contains(mounted.errors, "headrace: starts memcached -M -U 0 -l 127.0.0.1 -p " + std::to_string(sharer.port)));
  const pid_t memcached = sharer.memcached_pid();
  CHECK(memcached > 0);
  const json stat = sharer.stat();
  CHECK(contains(stat["share"]["command"], " -m 64 "));
  CHECK(stat["share"]["peer"] == sharer.name());
  CHECK(stat["share"]["tls"] == false);
  sharer.check_equal_trees(sharer.mount_point);
  CHECK(wait_until([&] { return sharer.stat()["store"]["peers"][0]["writes"] == 38; }));  // two files are empty

  REQUIRE(::kill(stat["pid"].get<pid_t>(), SIGKILL) == 0);
  REQUIRE(wait_until([&] { return sharer.tool({"stat", sharer.mount_point.string()}).status == 0; }));
  CHECK(sharer.memcached_pid() == memcached);
  CHECK(contains(sharer.tool({"stat", sharer.mount_point.string()}).output, "in the clear, memcached -M"));
  CHECK(sharer.tool({"unmount", "--force", sharer.mount_point.string()}).status == 0);
  CHECK(wait_until([&] { return !sharer.listens(); }));
}

TEST_CASE("share: a memcached that was killed is started again") {
  const Sharer sharer;
  REQUIRE(sharer.mount().status == 0);
  const pid_t first = sharer.memcached_pid();
  REQUIRE(first > 0);
  REQUIRE(::kill(first, SIGKILL) == 0);
  CHECK(wait_until([&] { return sharer.memcached_pid() > 0 && sharer.memcached_pid() != first; }));
}

TEST_CASE("share: memcached ends although the supervisor was killed") {
  const Sharer sharer;
  REQUIRE(sharer.mount().status == 0);
  REQUIRE(::kill(sharer.stat()["supervisor_pid"].get<pid_t>(), SIGKILL) == 0);
  CHECK(wait_until([&] { return !sharer.listens(); }));
}

TEST_CASE("share: where somebody listens already, no other memcached is started, and it is said") {
  const Sharer sharer;
  const UniqueFd taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = on_loopback(sharer.port);
  REQUIRE(::bind(taken.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(taken.get(), 16) == 0);
  const Outcome mounted = sharer.mount();
  CHECK(mounted.status == 0);
  CHECK(contains(mounted.errors, "starts no memcached: somebody listens at " + sharer.name()));
  CHECK(sharer.stat()["share"]["command"] == "");
}

TEST_CASE("share: an address where another user listens is refused in the clear") {
  if (::geteuid() != 0) skip("needs root, who can be another user");
  const Sharer sharer;
  constexpr uid_t kOther = 23'456;
  const pid_t other = ::fork();
  if (other == 0) {
    const int taken = ::setuid(kOther) == 0 ? ::socket(AF_INET, SOCK_STREAM, 0) : -1;
    const sockaddr_in address = on_loopback(sharer.port);
    const bool listens =
        ::bind(taken, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && ::listen(taken, 16) == 0;
    while (listens) ::pause();
    std::_Exit(1);
  }
  struct Ending {
    pid_t pid;
    ~Ending() {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  } const ending{other};
  REQUIRE(wait_until([&] { return sharer.listens(); }));
  const Outcome refused = sharer.mount();
  CHECK(refused.status == 1);
  CHECK(contains(refused.errors, "user 23456 listens at " + sharer.name()));
  CHECK(contains(refused.errors, "--peer-tls"));
  CHECK_FALSE(is_mounted(sharer.mount_point));
}

TEST_CASE("share: in the clear, what other users may not read is not given to peers, and it is said") {
  const Sharer sharer;
  fs::permissions(sharer.source / "cat" / "7.jpg", fs::perms::owner_read);
  fs::permissions(sharer.source / "dog", fs::perms::owner_all);
  const Outcome mounted = sharer.mount();
  REQUIRE(mounted.status == 0);
  CHECK(contains(mounted.errors, "21 files are not given to the peers"));
  sharer.check_equal_trees(sharer.mount_point);
  CHECK(wait_until([&] { return sharer.stat()["store"]["peers"][0]["writes"] == 18; }));  // one file is empty
  CHECK(contains(sharer.tool({"doctor", sharer.mount_point.string()}).output, "21 files are not given to the peers"));
  CHECK(sharer.tool({"unmount", "--force", sharer.mount_point.string()}).status == 0);
  const std::string folder = (sharer.data.path() / "job").string();
  REQUIRE(sharer.tool({"peers", "init", folder}).status == 0);
  REQUIRE(sharer.mount({"--peer-tls", folder}).status == 0);
  sharer.check_equal_trees(sharer.mount_point);
  CHECK(wait_until([&] { return sharer.stat()["store"]["peers"][0]["writes"] == 38; }));
}

TEST_CASE("share: with the certificates of peers init, mount and memcached talk TLS, and doctor says so") {
  const Sharer sharer;
  const std::string point = sharer.mount_point.string();
  const std::string folder = (sharer.data.path() / "job").string();
  const Outcome alone = sharer.tool({"mount", sharer.source.string(), point, "--peer-tls", folder});
  CHECK(alone.status == 2);
  CHECK(contains(alone.errors, "Name the nodes, for instance --peers"));
  const Outcome without = sharer.mount({"--peer-tls", folder});
  CHECK(without.status == 2);
  CHECK(contains(without.errors, "job/ca.pem: No such file or directory"));
  const Outcome made = sharer.tool({"peers", "init", folder});
  CHECK(made.status == 0);
  CHECK(contains(made.output, "--peer-tls " + folder));
  CHECK(sharer.tool({"peers", "init", folder}).status == 1);

  REQUIRE(sharer.mount({"--peer-tls", folder}).status == 0);
  sharer.check_equal_trees(sharer.mount_point);
  CHECK(wait_until([&] { return sharer.stat()["store"]["peers"][0]["writes"] == 38; }));
  CHECK(sharer.stat()["store"]["peers"][0]["state"] == "ok");
  CHECK(contains(sharer.tool({"doctor", point}).output, "talk TLS with certificates of this job"));
  CHECK(sharer.memcached_pid() == 0);  // in the clear it answers nobody
}

TEST_CASE("share: memcached starts with the capabilities that the systemd unit leaves a mount") {
  if (::geteuid() != 0 || std::system("setpriv --version >/dev/null 2>&1") != 0) skip("needs root and setpriv");
  const Sharer sharer;
  std::istringstream unit(read_file(HEADRACE_REFERENCE "/headrace@.service"));
  std::string set = "-all";
  for (std::string line; std::getline(unit, line);) {
    const std::string name = "CapabilityBoundingSet=";
    if (!line.starts_with(name)) continue;
    std::istringstream words(line.substr(name.size()));
    for (std::string word; words >> word;) set += ",+" + word.substr(std::string("CAP_").size());
  }
  std::transform(set.begin(), set.end(), set.begin(), [](unsigned char letter) { return std::tolower(letter); });
  const auto child =
      sharer.tool.start_shell("exec setpriv --bounding-set=" + set +
                              " --inh-caps=-all --no-new-privs " HEADRACE_BINARY " mount " + sharer.source.string() +
                              " " + sharer.mount_point.string() + " --foreground --share 64M --peers " + sharer.name());
  REQUIRE(wait_until([&] { return contains(child->errors(), " mounted at "); }));
  CHECK(sharer.memcached_pid() > 0);
  CHECK(sharer.tool({"unmount", "--force", sharer.mount_point.string()}).status == 0);
  CHECK(child->wait().status == 0);
  CHECK_FALSE(sharer.listens());
}

TEST_CASE("share: doctor says that peers talk in the clear, and how that is mended") {
  const Sharer sharer;
  REQUIRE(sharer.mount().status == 0);
  const std::string said = sharer.tool({"doctor", sharer.mount_point.string()}).output;
  CHECK(contains(said, "talk in the clear on private addresses"));
  CHECK(contains(said, "headrace peers init DIR"));
  CHECK(contains(said, "peer " + sharer.name()));
}

TEST_CASE("share: set peers= changes who shares while a mount is read, also for the successor of its worker") {
  const Sharer sharer;
  REQUIRE(sharer.mount().status == 0);
  const std::string point = sharer.mount_point.string();
  const auto names = [&] {
    std::vector<std::string> all;
    const json stat = sharer.stat();
    for (const json& peer : stat["store"]["peers"]) all.push_back(peer["name"]);
    return all;
  };
  const std::string other = "127.0.0.1:" + std::to_string(free_port());  // nobody is there
  std::vector<std::string> both = {sharer.name(), other};
  std::sort(both.begin(), both.end());
  const auto list = sharer.data.write("peers", sharer.name() + "\n" + other + "\n");

  for (const char* bad : {"peers=8.8.8.8", "peers=n1:x", "peers=file:/nowhere/list", "peers=127.0.0.1,127.0.0.1"}) {
    const Outcome refused = sharer.tool({"set", point, bad});
    CAPTURE(bad);
    CHECK(refused.status != 0);
    CHECK(contains(refused.errors, "peers=: "));
  }
  CHECK(sharer.tool({"set", point, "peers=file:" + (sharer.mount_point / "cat/list").string()}).status != 0);
  CHECK(names() == std::vector<std::string>{sharer.name()});

  const Outcome set = sharer.tool({"set", point, "peers=file:" + list.string()});
  CAPTURE(set.errors);
  REQUIRE(set.status == 0);
  CHECK(names() == both);
  CHECK(sharer.stat()["share"]["named"][0] == "file:" + list.string());
  sharer.check_equal_trees(sharer.mount_point);

  REQUIRE(::kill(sharer.stat()["pid"].get<pid_t>(), SIGKILL) == 0);
  REQUIRE(wait_until([&] { return sharer.tool({"stat", point}).status == 0; }));
  CHECK(wait_until([&] { return names() == both; }));
  sharer.check_equal_trees(sharer.mount_point);
  CHECK(sharer.tool({"set", point, "peers=" + sharer.name()}).status == 0);
  CHECK(names() == std::vector<std::string>{sharer.name()});
}

TEST_CASE("share: peers are not set where the order that is to be set with them cannot be") {
  const Sharer sharer;
  REQUIRE(sharer.mount({"--order", ""}).status == 0);
  const std::string other = "127.0.0.1:" + std::to_string(free_port());  // nobody is there
  const Outcome refused =
      sharer.tool({"set", sharer.mount_point.string(), "peers=" + sharer.name() + "," + other, "order=auto"});
  CHECK(refused.status != 0);
  CHECK(contains(refused.errors, "looks for no order"));
  CHECK(sharer.stat()["store"]["peers"].size() == 1);
}

TEST_CASE("share: a mount that shares with nobody has no peers to set") {
  const Fixture fixture;
  REQUIRE(fixture.tool({"mount", fixture.source.string(), fixture.mount_point.string(), "--ram", "20M"}).status == 0);
  const Outcome set = fixture.tool({"set", fixture.mount_point.string(), "peers=n1,n2"});
  CHECK(set.status != 0);
  CHECK(contains(set.errors, "shares with nobody"));
  CHECK(contains(fixture.tool({"warm", fixture.mount_point.string(), "--mine"}).errors, "shares with nobody"));
}

TEST_CASE("share: warm --mine brings what this node is to hold") {
  const Sharer sharer;
  REQUIRE(sharer.mount().status == 0);
  const Outcome warmed = sharer.tool({"warm", sharer.mount_point.string(), "--mine", "--json"});
  CAPTURE(warmed.errors);
  REQUIRE(warmed.status == 0);
  CHECK(json::parse(warmed.output)["peers"]["samples"] == 38);  // two files are empty
  // A write that takes too long on a busy machine is an error of its peer, and is not repeated.
  CHECK(wait_until([&] {
    const json peer = sharer.stat()["store"]["peers"][0];
    return peer["writes"] == 38 || (peer["writes"] > 0 && peer["errors"] > 0);
  }));
  // What is there is not read from the source again, by a command that shares with the same node.
  const Outcome again =
      sharer.tool({"warm", sharer.source.string(), "--mine", "--peers", sharer.name(), "--share", "64M"});
  CAPTURE(again.errors);
  CHECK(again.status == 0);
  CHECK(contains(again.output, "38 samples"));
  const Outcome whose =
      sharer.tool({"warm", sharer.source.string(), "--mine", "--peers", "10.255.255.1", "--share", "1M"});
  CHECK(whose.status == 2);
  CHECK(contains(whose.errors, "no peer has an address of this machine"));
}

}  // namespace share_test
