// SPDX-License-Identifier: Apache-2.0
// The process that keeps a node's memcached, with a program that stands for it.
#include "headrace/cli/daemon/memcached.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

#include "support/temp_dir.h"

namespace memcached_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::SharedTierOptions;
using headrace::cli::MemcachedKeeper;
using headrace::cli::plan_memcached;
using headrace::io::UniqueFd;
using headrace::test::TempDir;

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_.empty() ? ::unsetenv(name_) : ::setenv(name_, before_.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
};

// A listener, for which the keeper waits, and a program named memcached that SIGTERM does not end.
struct Node {
  Node() {
    dir.write("bin/memcached", "#!/bin/sh\ncd " + dir.path().string() +
                                   "\nenv > environment\necho $$ > pid.new\nmv pid.new pid\n"
                                   "trap '' TERM\nexec sleep 60\n");
    fs::permissions(dir.path() / "bin/memcached", fs::perms::owner_all);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(listener.get(), generic, size) == 0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    REQUIRE(::getsockname(listener.get(), generic, &size) == 0);
    shared = {.peers = {"127.0.0.1:" + std::to_string(ntohs(address.sin_port))}, .bytes_per_peer = 1 << 20};
  }
  [[nodiscard]] pid_t wait_for_memcached() const {
    for (int i = 0; i < 1000 && !fs::exists(dir.path() / "pid"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    REQUIRE(fs::exists(dir.path() / "pid"));
    return std::stoi(read_file(dir.path() / "pid"));
  }
  TempDir dir;
  Variable path = {"PATH", (dir.path() / "bin").string() + ":" + std::getenv("PATH")};
  UniqueFd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  SharedTierOptions shared;
};

}  // namespace

TEST_CASE("memcached's keeper: what it keeps has gone when it has, and gets no keys of a bucket") {
  // What outlives the keeper becomes a child of this process, and stays there until somebody waits for it.
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  const Node node;
  const Variable secret("AWS_SECRET_ACCESS_KEY", "of-a-bucket");
  const auto plan = plan_memcached(node.shared, true);
  REQUIRE(plan.has_value());
  REQUIRE_FALSE(plan->words.empty());
  pid_t memcached = -1;
  {
    const auto keeper = MemcachedKeeper::start(*plan);
    REQUIRE(keeper.has_value());
    memcached = node.wait_for_memcached();
    const std::string environment = read_file(node.dir.path() / "environment");
    CHECK(environment.find("PATH=") != std::string::npos);
    CHECK(environment.find("of-a-bucket") == std::string::npos);
  }
  CHECK(::kill(memcached, 0) != 0);
  ::waitpid(memcached, nullptr, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_CASE("memcached's plan: certificates that its options cannot name are refused in words") {
  Node node;
  node.shared.certificates = node.dir.path() / "job 1,2";
  const auto plan = plan_memcached(node.shared, true);
  REQUIRE(plan.has_value());
  CHECK(plan->words.empty());
  CHECK(plan->why_not.find("a folder with a comma") != std::string::npos);
}

}  // namespace memcached_test
