// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/control.h"

#include <chrono>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/daemon/unix_socket.h"
#include "headrace/io/log.h"
#include "headrace/io/unique_fd.h"

#include "support/temp_dir.h"

namespace control_test {

using headrace::cli::answer_request;
using headrace::cli::ControlClient;
using headrace::cli::ControlServer;
using headrace::cli::format_reply;
using headrace::cli::format_request;
using headrace::cli::kRequestBytesMax;
using headrace::cli::parse_reply;
using headrace::io::ErrorCode;
using headrace::io::UniqueFd;
using headrace::test::TempDir;
using nlohmann::json;
using std::chrono::milliseconds;

namespace {

headrace::io::Result<json> handle(const std::string& command, const json& arguments) {
  if (command == "echo") return arguments;
  return headrace::io::make_error(ErrorCode::kInvalidArgument, "unknown command '" + command + "'");
}

struct Fixture {
  explicit Fixture(ControlServer::Limits limits = {}) {
    headrace::io::set_log_level(headrace::io::LogLevel::kError);  // the warnings below are what is tested
    auto started = ControlServer::start(
        socket, [](std::string_view line) { return answer_request(line, handle); }, limits);
    REQUIRE(started);
    server = std::move(*started);
  }

  // A bare connection, for talking nonsense.
  [[nodiscard]] UniqueFd raw() const {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = headrace::cli::unix_address(socket).value();
    REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    const timeval patience{5, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
  }

  [[nodiscard]] bool answers() const {
    auto client = ControlClient::connect(socket);
    if (!client) return false;
    const auto reply = client->ask(format_request("echo", {{"n", 7}}));
    return reply && parse_reply(*reply).value()["n"] == 7;
  }

  TempDir directory;
  std::filesystem::path socket = directory.path() / "control.sock";
  std::unique_ptr<ControlServer> server;
};

bool closed_by_peer(const UniqueFd& fd) {
  char byte = 0;
  return ::recv(fd.get(), &byte, 1, 0) <= 0;
}

}  // namespace

TEST_CASE("a request is answered, and errors keep their code and words") {
  Fixture fixture;
  CHECK(fixture.answers());
  auto client = ControlClient::connect(fixture.socket);
  REQUIRE(client);
  const auto refused = parse_reply(client->ask(format_request("dance", json::object())).value());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  CHECK(refused.error().context == "unknown command 'dance'");
  CHECK(client->ask(format_request("echo", {{"again", true}})));  // the connection stays good
}

TEST_CASE("the socket is its owner's alone and is gone afterwards") {
  Fixture fixture;
  struct stat status {};
  REQUIRE(::stat(fixture.socket.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  fixture.server.reset();
  CHECK_FALSE(std::filesystem::exists(fixture.socket));
  CHECK(ControlClient::connect(fixture.socket).error().code == ErrorCode::kNotFound);
}

TEST_CASE("a second daemon is refused, a dead one's socket is replaced") {
  Fixture fixture;
  const auto second = ControlServer::start(fixture.socket, [](std::string_view) { return std::string(); },
                                           {.leave_patience = milliseconds(50)});
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::kBusy);
  CHECK(fixture.answers());

  const std::filesystem::path stale = fixture.directory.path() / "stale.sock";
  {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
    const auto address = headrace::cli::unix_address(stale).value();
    REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  CHECK(ControlServer::start(stale, [](std::string_view) { return std::string("{}"); }));
}

TEST_CASE("a daemon that is about to end is waited for") {
  Fixture fixture;
  auto second = std::async(std::launch::async, [&] {
    return ControlServer::start(fixture.socket, [](std::string_view) { return std::string("{}"); }).has_value();
  });
  CHECK(second.wait_for(milliseconds(200)) == std::future_status::timeout);
  fixture.server.reset();
  CHECK(second.get());
}

TEST_CASE("garbage is answered with an error or a closed connection, and the daemon lives on") {
  Fixture fixture;
  constexpr unsigned kSeed = 20261120;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    std::string garbage(random() % 512, '\0');
    for (char& byte : garbage) byte = static_cast<char>(random());
    if (round % 3 == 0) garbage = format_request("echo", {{"x", 1}}).substr(0, random() % 40) + garbage;
    garbage += '\n';
    const UniqueFd fd = fixture.raw();
    REQUIRE(::send(fd.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL) > 0);
    char reply[512];
    const ssize_t length = ::recv(fd.get(), reply, sizeof reply, 0);
    REQUIRE(length > 0);
    const std::string_view line(reply, static_cast<std::size_t>(length));
    CHECK_FALSE(parse_reply(line.substr(0, line.find('\n'))));
  }
  CHECK(fixture.answers());
}

TEST_CASE("requests of wrong shape or version are refused in words") {
  const std::string deep(20'000, '[');
  for (const std::string& line :
       {std::string("null"), std::string("[1]"), std::string("{}"),
        std::string("{\"headrace\":2,\"command\":\"echo\"}"), std::string("{\"headrace\":\"1\"}"),
        std::string("{\"headrace\":1,\"command\":5,\"arguments\":[]}"), deep}) {
    CAPTURE(line.substr(0, 60));
    const auto reply = parse_reply(answer_request(line, handle));
    REQUIRE_FALSE(reply);
    CHECK_FALSE(reply.error().context.empty());
  }
}

TEST_CASE("a request without end is cut off at its bound") {
  Fixture fixture;
  const UniqueFd fd = fixture.raw();
  const std::string flood(kRequestBytesMax + 4096, 'x');
  for (std::size_t sent = 0; sent < flood.size();) {
    const ssize_t count = ::send(fd.get(), flood.data() + sent, flood.size() - sent, MSG_NOSIGNAL);
    if (count < 0) break;  // cut off while sending: as good
    sent += static_cast<std::size_t>(count);
  }
  CHECK(closed_by_peer(fd));
  CHECK(fixture.answers());
}

TEST_CASE("slow and silent clients lose their connection and hold up nobody") {
  Fixture fixture({.connections_max = 4, .patience = milliseconds(150)});
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(fixture.raw());
  REQUIRE(::send(silent[0].get(), "{\"head", 6, MSG_NOSIGNAL) == 6);
  CHECK(fixture.answers());
  for (const UniqueFd& fd : silent) CHECK(closed_by_peer(fd));
  CHECK(fixture.answers());
}

TEST_CASE("connections above the limit are turned away until one ends") {
  Fixture fixture({.connections_max = 2, .patience = milliseconds(5000)});
  UniqueFd first = fixture.raw();
  const UniqueFd second = fixture.raw();
  CHECK(closed_by_peer(fixture.raw()));
  first.reset();
  bool answered = false;
  for (int attempt = 0; attempt < 100 && !answered; ++attempt) answered = fixture.answers();
  CHECK(answered);
}

TEST_CASE("a reply that nobody takes does not stop the others") {
  TempDir directory;
  const std::filesystem::path socket = directory.path() / "big.sock";
  const std::string big(2 << 20, 'y');
  auto server = ControlServer::start(socket, [&](std::string_view line) { return line == "big" ? big : "small"; },
                                     {.connections_max = 4, .patience = milliseconds(5'000)});
  REQUIRE(server);
  auto stuck = ControlClient::connect(socket);
  REQUIRE(stuck);
  CHECK(stuck->ask("big", milliseconds(0)).error().code == ErrorCode::kTimedOut);
  auto other = ControlClient::connect(socket);
  REQUIRE(other);
  CHECK(other->ask("hello").value() == "small");
  CHECK(other->ask("big").value() == big);
}

TEST_CASE("replies survive paths that are not UTF-8") {
  const auto reply = parse_reply(format_reply(json{{"path",
                                                    "a\xff"
                                                    "b"}}));
  REQUIRE(reply);
  CHECK((*reply)["path"] ==
        "a\xef\xbf\xbd"
        "b");
}

TEST_CASE("a daemon that takes no calls any more is given up, however many wait for it already") {
  const TempDir directory;
  const std::filesystem::path socket = directory.path() / "stopped.sock";
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = headrace::cli::unix_address(socket).value();
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  std::vector<headrace::io::Result<ControlClient>> clients;  // these fill the queue; nobody accepts
  do {
    clients.push_back(ControlClient::connect(socket));
  } while (clients.back() && clients.size() < 10);
  REQUIRE_FALSE(clients.back());
  CHECK(clients.back().error().code == ErrorCode::kTimedOut);
}

TEST_CASE("a socket path too long for the system is refused with a remedy") {
  const auto client = ControlClient::connect("/tmp/" + std::string(200, 'a'));
  REQUIRE_FALSE(client);
  CHECK(client.error().code == ErrorCode::kInvalidArgument);
  CHECK(client.error().context.find("HEADRACE_RUNTIME_DIR") != std::string::npos);
}

}  // namespace control_test
