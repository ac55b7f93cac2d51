// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/http_loop.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "object_server.h"

namespace {

using headrace::cache::HttpEnd;
using headrace::cache::HttpExchange;
using headrace::cache::HttpLoop;
using headrace::cache::HttpSink;
using headrace::test::ObjectServer;
using std::chrono::milliseconds;

// Stands in for a resolver that gets no answer: getaddrinfo() below.
std::atomic<bool> resolver_asked = false;
std::promise<void> resolver_answers;

class Ended : public HttpSink {
 public:
  void on_status(int /*status*/) override {}
  void on_header(std::string_view /*name*/, std::string_view /*value*/) override {}
  bool on_body(std::span<const std::byte> /*bytes*/) override { return true; }
  void on_end(const HttpEnd& ended) override { end = ended; }

  std::optional<HttpEnd> end;
};

}  // namespace

// libcurl finds this one before the C library's.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** found) {
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (node == nullptr || std::string_view(node) != "hangs.invalid") return real(node, service, hints, found);
  resolver_asked = true;
  resolver_answers.get_future().wait();
  return EAI_FAIL;
}

TEST_CASE("a name that nobody resolves holds up neither who gives it up nor the end") {
  std::future<void> ended = std::async(std::launch::async, [] {
    HttpLoop loop({});
    Ended sink;
    HttpExchange exchange;
    exchange.url = "http://hangs.invalid/";
    exchange.sink = &sink;
    loop.start(exchange);
    while (!resolver_asked) loop.run_once(milliseconds(10));
    loop.cancel(exchange);
  });
  CHECK(ended.wait_for(std::chrono::seconds(10)) == std::future_status::ready);  // else it waits for the next line
  resolver_answers.set_value();
  ended.wait();
}

TEST_CASE("a program that is started gets no connection") {
  ObjectServer server;
  HttpLoop loop({});
  Ended sink;
  HttpExchange exchange;
  exchange.url = server.url() + "/_counts";
  exchange.sink = &sink;
  loop.start(exchange);
  while (!sink.end) loop.run_once(milliseconds(10));
  REQUIRE(sink.end->is_complete);
  int connections = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    sockaddr_in peer = {};
    socklen_t bytes = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0 || peer.sin_family != AF_INET) continue;
    ++connections;
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(connections > 0);
}
