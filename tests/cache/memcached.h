// SPDX-License-Identifier: Apache-2.0
// A memcached of a test's own, on a free port of the loopback address; it ends with the test.
//
//   const Memcached memcached;
//   store.open({.shared = {.peers = {memcached.name()}, .bytes_per_peer = 64 << 20}});
#pragma once

#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/io/unique_fd.h"

#include "support/temp_dir.h"

namespace headrace::test {

class Memcached {
 public:
  // `extended`: what comes behind -o; `more`: further words.
  explicit Memcached(const std::string& extended = "slab_chunk_max=16384", const std::vector<std::string>& more = {}) {
    const std::string program = "/usr/bin/memcached";
    if (!std::filesystem::exists(program)) skip("the package memcached is missing");
    port_ = free_port();
    std::vector<std::string> words = {
        program, "-u",  "root", "-M", "-U", "0",     "-l", "127.0.0.1", "-p", std::to_string(port_),
        "-m",    "128", "-I",   "9m", "-o", extended};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    REQUIRE(::posix_spawn(&child_, program.c_str(), nullptr, nullptr, arguments.data(), environ) == 0);
    for (int i = 0; i < 500 && !listens(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ~Memcached() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Memcached(const Memcached&) = delete;
  Memcached& operator=(const Memcached&) = delete;

  [[nodiscard]] std::string name() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  static sockaddr_in on_loopback(std::uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }
  static std::uint16_t free_port() {
    const io::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = on_loopback(0);
    socklen_t size = sizeof address;
    REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    return ntohs(address.sin_port);
  }
  [[nodiscard]] bool listens() const {
    const io::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = on_loopback(port_);
    return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  std::uint16_t port_ = 0;
  pid_t child_ = -1;
};

}  // namespace headrace::test
