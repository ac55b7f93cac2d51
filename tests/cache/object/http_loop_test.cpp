// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/http_loop.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

#include "object_server.h"
#include "support/temp_dir.h"

namespace http_loop_test {
namespace {

using headrace::cache::HttpEnd;
using headrace::cache::HttpExchange;
using headrace::cache::HttpLoop;
using headrace::cache::HttpSink;
using headrace::io::UniqueFd;
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

// Gives the calling thread, and those that it starts, a network of its own, in which nobody else is counted.
bool enter_own_network() {
  if (::unshare(CLONE_NEWNET) != 0) return false;
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq loopback = {};
  std::string_view("lo").copy(loopback.ifr_name, sizeof loopback.ifr_name);
  loopback.ifr_flags = IFF_UP;
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &loopback) == 0;
}

// Acknowledgements that were sent because a timer had run out, in the network of the calling thread.
std::uint64_t delayed_acknowledgements() {
  std::ifstream counters("/proc/thread-self/net/netstat");
  std::string names;
  std::string values;
  std::getline(counters, names);
  std::getline(counters, values);
  std::istringstream name_words(names);
  std::istringstream value_words(values);
  for (std::string name, value; name_words >> name && value_words >> value;) {
    if (name == "DelayedACKs") return std::stoull(value);
  }
  FAIL("the kernel does not count them");
  return 0;
}

// A store that sends headers and object by themselves, as Ceph's gateway does, to one client after the other.
class TwoPartServer {
 public:
  TwoPartServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_.get(), 1) == 0);
    socklen_t bytes = sizeof address;
    REQUIRE(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
    url_ = "http://127.0.0.1:" + std::to_string(::ntohs(address.sin_port)) + "/";
    thread_ = std::thread([this] { serve(); });
  }
  ~TwoPartServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  TwoPartServer(const TwoPartServer&) = delete;
  TwoPartServer& operator=(const TwoPartServer&) = delete;

  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  void serve() const {
    while (true) {
      const UniqueFd client(::accept(listener_.get(), nullptr, nullptr));
      if (!client.valid()) return;
      while (take_request(client.get())) {
        for (const std::string_view part : {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "bytes"}) {
          ::send(client.get(), part.data(), part.size(), MSG_NOSIGNAL);
        }
      }
    }
  }

  static bool take_request(int client) {
    std::string request;
    for (char byte = 0; !request.ends_with("\r\n\r\n"); request += byte) {
      if (::recv(client, &byte, 1, 0) != 1) return false;
    }
    return true;
  }

  UniqueFd listener_;
  std::string url_;
  std::thread thread_;
};

// How many acknowledgements were delayed for so many answers, one after the other on one connection; nullopt: only root
// can see that.
std::optional<std::uint64_t> delayed_while_answered(int answers) {
  if (!enter_own_network()) return std::nullopt;
  const TwoPartServer server;
  HttpLoop loop({.no_proxy = true});  // there is none in this network
  for (int i = 0; i < answers; ++i) {
    Ended sink;
    HttpExchange exchange;
    exchange.url = server.url();
    exchange.sink = &sink;
    loop.start(exchange);
    while (!sink.end) loop.run_once(milliseconds(10));
    CHECK(sink.end->is_complete);
  }
  return delayed_acknowledgements();
}

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

TEST_CASE("an answer that comes in two parts waits for no delayed acknowledgement") {
  constexpr int kAnswers = 50;
  const auto delayed = std::async(std::launch::async, [] { return delayed_while_answered(kAnswers); }).get();
  if (!delayed) headrace::test::skip("only root makes a network to count in");
  // One is delayed all the same where the machine is too busy to let this read within 40 ms.
  CHECK(*delayed < kAnswers / 2);
}

}  // namespace http_loop_test
