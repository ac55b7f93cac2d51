// SPDX-License-Identifier: Apache-2.0
#include "io/engines.h"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "headrace/io/pread_engine.h"
#include "headrace/io/uring_engine.h"

namespace headrace::test {
namespace {

using io::Engine;
using io::EngineOptions;
using Clock = std::chrono::steady_clock;

EngineCase uring_case(std::string name, io::UringMask mask) {
  return {std::move(name), [mask](const EngineOptions& options) { return io::open_uring_engine(options, mask); }};
}

std::vector<EngineCase> make_cases() {
  std::vector<EngineCase> cases;
  if (io::open_uring_engine({})) {
    cases.push_back(uring_case("io_uring", {}));
    cases.push_back(uring_case("io_uring, flags refused", {.refused_setup_flags = ~0U}));
    cases.push_back(uring_case("io_uring, short transfers", {.transfer_bytes_max = 8192}));
  }
  cases.push_back({"pread", [](const EngineOptions& options) { return io::open_pread_engine(options, ""); }});
  return cases;
}

// HEADRACE_TEST_REFUSE=io_uring: this whole program runs as in a container that refuses it.
[[maybe_unused]] const bool kRefused = [] {
  const char* const refuse = std::getenv("HEADRACE_TEST_REFUSE");
  if (refuse == nullptr || std::string_view(refuse) != "io_uring") return false;
  if (!refuse_system_call(SYS_io_uring_setup, EPERM)) skip("no seccomp filters here");
  return true;
}();

}  // namespace

bool refuse_system_call(unsigned number, unsigned error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {static_cast<unsigned short>(std::size(program)), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

const std::vector<EngineCase>& engine_cases() {
  static const std::vector<EngineCase> cases = make_cases();
  return cases;
}

void for_each_engine(const EngineOptions& options, const std::function<void(Engine&)>& body) {
  for (const EngineCase& engine_case : engine_cases()) {
    CAPTURE(engine_case.name);
    const std::size_t descriptors_before = open_descriptor_count();
    {
      auto engine = engine_case.open(options);
      REQUIRE(engine);
      body(**engine);
      CHECK((*engine)->in_flight() == 0);
    }
    CHECK(open_descriptor_count() == descriptors_before);
  }
}

void for_each_engine(const std::function<void(Engine&)>& body) {
  for_each_engine({}, body);
}

void need_uring() {
  if (auto engine = io::open_uring_engine({}); !engine) skip(engine.error().message());
}

Tracked::Tracked(io::Operation made) : operation(std::move(made)) {
  operation.context = this;
  operation.on_complete = [](io::Operation& self, io::Result<std::uint64_t> bytes) {
    auto& tracked = *static_cast<Tracked*>(self.context);
    tracked.result = std::move(bytes);
    ++tracked.completions;
  };
}

io::Buffer buffer_for(std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t begin = offset / io::kBufferAlignment * io::kBufferAlignment;
  return std::move(*io::Buffer::allocate(offset + length - begin));
}

void drain(Engine& engine) {
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (engine.in_flight() > 0 && Clock::now() < deadline) engine.wait(deadline);
  REQUIRE(engine.in_flight() == 0);
}

io::Result<std::uint64_t> run(Engine& engine, Tracked& tracked) {
  engine.submit(tracked.operation);
  drain(engine);
  REQUIRE(tracked.completions == 1);
  return *tracked.result;
}

DirFd::DirFd(const std::filesystem::path& path, int flags)
    : fd_(::open(path.c_str(), (flags < 0 ? O_RDONLY | O_DIRECTORY : flags) | O_CLOEXEC, 0600)) {
  REQUIRE(fd_ >= 0);
}

DirFd::~DirFd() {
  ::close(fd_);
}

std::size_t open_descriptor_count() {
  const std::filesystem::directory_iterator listing("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(listing), end(listing)));
}

}  // namespace headrace::test
