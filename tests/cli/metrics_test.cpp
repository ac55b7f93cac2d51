// SPDX-License-Identifier: Apache-2.0
// The figures of mounts for Prometheus: one page a mount, and one a machine.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <future>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

#include "mount_fixture.h"
#include "process.h"

namespace metrics_test {

using headrace::io::UniqueFd;
using headrace::test::contains;
using headrace::test::Fixture;
using headrace::test::Outcome;
using headrace::test::read_file;
using headrace::test::skip;
using headrace::test::wait_until;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

sockaddr_in on_loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Nobody listens there now. A number of its own for each test: the same one may run under another preset beside it.
std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = on_loopback(0);
  socklen_t size = sizeof address;
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

// What a web server on this machine answers to GET.
std::string fetch_page(std::uint16_t port, const std::string& page_path = "/metrics") {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = on_loopback(port);
  REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const std::string request = "GET " + page_path + " HTTP/1.0\r\n\r\n";
  REQUIRE(::send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0);
  std::string page;
  char chunk[4096];
  for (ssize_t count = 0; (count = ::recv(fd, chunk, sizeof chunk, 0)) > 0;) {
    page.append(chunk, static_cast<std::size_t>(count));
  }
  ::close(fd);
  return page;
}

// Of a page as Prometheus takes it: each name described once, each series there once.
void check_series_are_there_once(const std::string& page) {
  std::set<std::string> seen;
  std::istringstream lines(page.substr(page.find("\r\n\r\n")));
  for (std::string line; std::getline(lines, line);) {
    const bool is_series = line.starts_with("headrace_");
    if (!is_series && !line.starts_with("# TYPE ")) continue;
    const std::string name = is_series ? line.substr(0, line.rfind(' ')) : line;
    CHECK_MESSAGE(seen.insert(name).second, name);
  }
  CHECK(seen.size() > 50);
}

}  // namespace

TEST_CASE("metrics are served on loopback alone, with names and values") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const std::uint16_t port = free_port();
  const std::string metrics = std::to_string(port);
  const Outcome mounted = fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M", "--metrics", metrics});
  if (contains(mounted.errors, "built without")) skip("built without prometheus-cpp");
  CAPTURE(mounted.errors);
  REQUIRE(mounted.status == 0);
  const std::string page = fetch_page(port);
  CHECK(contains(page, "headrace_tier_hits_total{mount=\"" + point + "\",tier=\"source\""));
  CHECK(contains(page, "# TYPE headrace_opens_total counter"));
  CHECK(contains(page, "headrace_tier_ok{mount=\"" + point + "\",tier=\"source\""));
  CHECK(contains(page, "headrace_up{mount=\"" + point + "\"} 1"));
  CHECK(contains(page, "headrace_build_info{mount=\"" + point + "\",version=\""));
  CHECK_FALSE(contains(page, "headrace_build_info{version="));  // one program, one series
  CHECK(contains(page, "# TYPE headrace_read_wait_seconds histogram"));
  CHECK(contains(page, "headrace_read_wait_seconds_bucket{mount=\"" + point + "\",le=\"+Inf\"} "));
  REQUIRE(::truncate((fixture.source / "dog" / "7.jpg").c_str(), 1) == 0);  // shorter than the catalog has it
  static_cast<void>(read_file(fixture.mount_point / "dog" / "7.jpg"));
  if (fixture.stat()["mount"]["read_failures"] > 0) {
    CHECK(contains(fetch_page(port), "headrace_read_failure_reasons_total{mount=\"" + point + "\",reason=\"E"));
  }
  const std::string health = fetch_page(port, "/healthz");
  CHECK(contains(health, " 200 OK"));
  CHECK(contains(health, "headrace_up{mount=\"" + point + "\"} 1"));
  const std::string sockets = read_file("/proc/net/tcp");
  CHECK(contains(sockets, fmt::format("0100007F:{:04X} 00000000:0000 0A", port)));        // listens at 127.0.0.1
  CHECK_FALSE(contains(sockets, fmt::format("00000000:{:04X} 00000000:0000 0A", port)));  // and not everywhere
  fixture.check_refused_elsewhere({"--metrics", "port"}, 2, "--metrics 'port'");
  fixture.check_refused_elsewhere({"--metrics", metrics, "--ram", "32M"}, 1, "in use");
}

TEST_CASE("connections that send nothing keep nobody else from the page") {
  const Fixture fixture;
  const std::uint16_t port = free_port();
  const auto server = fixture.tool.start({"metrics", std::to_string(port)});
  if (!wait_until([&] { return !server->errors().empty(); }) || contains(server->errors(), "built without")) {
    skip("built without prometheus-cpp");
  }
  std::vector<UniqueFd> silent;
  const sockaddr_in address = on_loopback(port);
  for (int i = 0; i < 12; ++i) {  // more than it has threads
    silent.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(silent.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  auto page = std::async(std::launch::async, [&] { return fetch_page(port); });
  const bool is_there = wait_until([&] { return page.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
  CHECK(is_there);
  silent.clear();  // or the page would be waited for as long as these are
  CHECK(contains(page.get(), "headrace_build_info"));
}

TEST_CASE("one page shows all mounts of a machine, and what became of them") {
  const Fixture fixture;
  const fs::path second = fixture.data.path() / "second";
  const fs::path bound = fixture.data.path() / "bound";
  const auto up = [](const fs::path& mount, int value) {
    return fmt::format("headrace_up{{mount=\"{}\"}} {}\n", mount.string(), value);
  };
  for (const fs::path& folder : {second, bound}) fs::create_directory(folder);
  struct Ending {
    const Fixture& fixture;
    const fs::path& second;
    const fs::path& bound;
    ~Ending() {
      ::umount2(bound.c_str(), MNT_DETACH);
      static_cast<void>(fixture.tool({"unmount", "--force", second.string()}));
    }
  } const ending{fixture, second, bound};
  const std::string port_text = std::to_string(free_port());
  const auto port = static_cast<std::uint16_t>(std::stoul(port_text));
  const auto server = fixture.tool.start({"metrics", port_text});
  if (!wait_until([&] { return !server->errors().empty(); }) || contains(server->errors(), "built without")) {
    skip("built without prometheus-cpp");
  }
  CHECK(contains(server->errors(), "http://127.0.0.1:" + port_text + "/metrics"));
  CHECK(contains(fetch_page(port, "/healthz"), " 200 OK"));  // also where there is no mount
  CHECK(contains(fetch_page(port), "headrace_build_info{version=\""));

  for (const fs::path& point : {fixture.mount_point, second}) {
    const std::string ram = point == second ? "32M" : "64M";  // or one daemon would show both
    REQUIRE(fixture.tool({"mount", fixture.source.string(), point.string(), "--ram", ram}).status == 0);
  }
  if (::geteuid() == 0) REQUIRE(::mount(second.c_str(), bound.c_str(), nullptr, MS_BIND, nullptr) == 0);
  static_cast<void>(read_file(second / "cat" / "3.jpg"));
  const std::string page = fetch_page(port);
  check_series_are_there_once(page);
  CHECK_FALSE(contains(page, bound.string()));  // it is the second mount once more
  for (const fs::path& point : {fixture.mount_point, second}) {
    CHECK(contains(page, up(point, 1)));
    CHECK(contains(page, "headrace_opens_total{mount=\"" + point.string() + "\"} "));
    CHECK(contains(page, "headrace_tier_hits_total{mount=\"" + point.string() + "\",tier=\"source\""));
    CHECK(contains(page, "headrace_build_info{mount=\"" + point.string() + "\",version=\""));
  }

  const json stat = json::parse(fixture.tool({"stat", second.string(), "--json"}).output);
  for (const int signal : {SIGSTOP, SIGKILL}) {  // stopped first, or the one that is left would bring up another
    for (const char* pid : {"supervisor_pid", "pid"}) ::kill(stat[pid].get<pid_t>(), signal);
  }
  CHECK(wait_until([&] { return contains(fetch_page(port), up(second, 0)); }));
  CHECK(contains(fetch_page(port), up(fixture.mount_point, 1)));
  CHECK_FALSE(contains(fetch_page(port), "headrace_opens_total{mount=\"" + second.string()));
  CHECK(contains(fetch_page(port, "/healthz"), up(second, 0)));

  ::umount2(bound.c_str(), MNT_DETACH);
  REQUIRE(fixture.tool({"unmount", "--force", second.string()}).status == 0);
  CHECK_FALSE(contains(fetch_page(port), second.string()));
  CHECK(contains(fetch_page(port), up(fixture.mount_point, 1)));
  server->signal(SIGTERM);
  CHECK(server->wait().status == 0);
  CHECK(fixture.tool({"metrics", "port"}).status == 2);
  CHECK(contains(fixture.tool({"metrics", "port"}).errors, "metrics 'port' is no address"));
}

}  // namespace metrics_test
