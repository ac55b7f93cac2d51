// SPDX-License-Identifier: Apache-2.0
// Every engine under the same test body, and what such bodies want to do.
//
//   for_each_engine([](Engine& engine) { CHECK(read_whole(engine, dir.fd(), "a") == content); });
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headrace/io/engine.h"

#include "support/temp_dir.h"

namespace headrace::test {

struct EngineCase {
  std::string name;
  std::function<io::Result<std::unique_ptr<io::Engine>>(const io::EngineOptions&)> open;
};

// The engines of this machine: io_uring in full and with features hidden (left out where it is refused), the pread
// pool.
[[nodiscard]] const std::vector<EngineCase>& engine_cases();
// Opens each in turn, runs `body`, checks that nothing is left in flight and no descriptor is left open.
void for_each_engine(const io::EngineOptions& options, const std::function<void(io::Engine&)>& body);
void for_each_engine(const std::function<void(io::Engine&)>& body);
// This process gets `error` from that system call from now on. False: there are no seccomp filters here.
[[nodiscard]] bool refuse_system_call(unsigned number, unsigned error);
// Ends the test as skipped where io_uring is refused.
void need_uring();

// An operation together with its result.
struct Tracked {
  explicit Tracked(io::Operation made);
  Tracked(const Tracked&) = delete;
  Tracked& operator=(const Tracked&) = delete;

  [[nodiscard]] bool done() const { return result.has_value(); }
  [[nodiscard]] std::string text() { return {reinterpret_cast<const char*>(operation.data()), **result}; }

  io::Operation operation;
  std::optional<io::Result<std::uint64_t>> result;
  int completions = 0;
};

[[nodiscard]] io::Buffer buffer_for(std::uint64_t offset, std::uint64_t length);
// Drives the engine until nothing is in flight; fails the test when that takes more than 20 s.
void drain(io::Engine& engine);
io::Result<std::uint64_t> run(io::Engine& engine, Tracked& tracked);

// A directory descriptor that is closed again.
class DirFd {
 public:
  explicit DirFd(const std::filesystem::path& path, int flags = -1);
  ~DirFd();
  DirFd(const DirFd&) = delete;
  DirFd& operator=(const DirFd&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

[[nodiscard]] std::size_t open_descriptor_count();

}  // namespace headrace::test
