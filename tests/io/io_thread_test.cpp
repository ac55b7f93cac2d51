// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/io_thread.h"

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "io/engines.h"
#include "support/temp_dir.h"

namespace io_thread_test {

using namespace headrace::io;
using namespace headrace::test;

namespace {

std::unique_ptr<IoThread> start_thread(const EngineCase& engine_case) {
  auto thread = IoThread::start("hr-test", [&engine_case] { return engine_case.open({.queue_depth_max = 8}); });
  REQUIRE(thread);
  return std::move(*thread);
}

// A read that counts its completion.
struct CountedRead {
  CountedRead(const DirFd& dir, std::atomic<int>& counter)
      : operation(Operation::read_path(dir.get(), "f", 0, 7, buffer_for(0, 7))) {
    operation.context = &counter;
    operation.on_complete = [](Operation& self, Result<std::uint64_t>) {
      static_cast<std::atomic<int>*>(self.context)->fetch_add(1);
    };
  }
  Operation operation;
};

}  // namespace

TEST_CASE("operations from several threads all complete, and tasks run after what came before them") {
  const TempDir folder;
  folder.write("f", "content");
  const DirFd dir(folder.path());
  for (const EngineCase& engine_case : engine_cases()) {
    CAPTURE(engine_case.name);
    std::atomic<int> completed = 0;
    std::vector<std::vector<std::unique_ptr<CountedRead>>> reads(4);
    auto io_thread = start_thread(engine_case);
    std::vector<std::thread> submitters;
    for (auto& mine : reads) {
      submitters.emplace_back([&] {
        for (int i = 0; i < 250; ++i) {
          mine.push_back(std::make_unique<CountedRead>(dir, completed));
          io_thread->submit(mine.back()->operation);
        }
      });
    }
    for (auto& submitter : submitters) submitter.join();
    std::promise<std::string> name;
    io_thread->post([&name] {
      char buffer[16] = {};
      ::pthread_getname_np(::pthread_self(), buffer, sizeof buffer);
      name.set_value(buffer);
    });
    CHECK(name.get_future().get() == "hr-test");
    io_thread.reset();
    CHECK(completed == 1000);
  }
}

TEST_CASE("an idle thread wakes for one operation") {
  const TempDir folder;
  folder.write("f", "content");
  const DirFd dir(folder.path());
  for (const EngineCase& engine_case : engine_cases()) {
    CAPTURE(engine_case.name);
    auto io_thread = start_thread(engine_case);
    for (int i = 0; i < 100; ++i) {
      std::promise<std::uint64_t> bytes;
      Operation operation = Operation::read_path(dir.get(), "f", 0, 7, buffer_for(0, 7));
      operation.context = &bytes;
      operation.on_complete = [](Operation& self, Result<std::uint64_t> result) {
        static_cast<std::promise<std::uint64_t>*>(self.context)->set_value(result.value_or(0));
      };
      io_thread->submit(operation);
      CHECK(bytes.get_future().get() == 7);
    }
  }
}

TEST_CASE("what tasks and completions ask for during shutdown still ends") {
  const TempDir folder;
  folder.write("f", "content");
  const DirFd dir(folder.path());
  for (const EngineCase& engine_case : engine_cases()) {
    CAPTURE(engine_case.name);
    std::atomic<int> completed = 0;
    CountedRead read(dir, completed);
    auto io_thread = start_thread(engine_case);
    IoThread* const raw = io_thread.get();
    io_thread->post([raw, &read] { raw->post([raw, &read] { raw->submit(read.operation); }); });
    io_thread.reset();
    CHECK(completed == 1);
  }
}

TEST_CASE("what is submitted once the thread has stopped ends as cancelled, and tasks run where they are posted") {
  const TempDir folder;
  folder.write("f", "content");
  const DirFd dir(folder.path());
  for (const EngineCase& engine_case : engine_cases()) {
    CAPTURE(engine_case.name);
    auto io_thread = start_thread(engine_case);
    io_thread->stop();
    std::atomic<int> completed = 0;
    CountedRead late(dir, completed);
    io_thread->submit(late.operation);
    CHECK(completed == 1);
    io_thread->hurry();
    bool has_run = false;
    io_thread->post([&has_run] { has_run = true; });
    CHECK(has_run);
    io_thread->stop();
  }
}

TEST_CASE("an engine that cannot be opened is an error of start") {
  auto thread = IoThread::start(
      "hr-test", []() -> Result<std::unique_ptr<Engine>> { return make_error(ErrorCode::kUnsupported, "no engine"); });
  REQUIRE_FALSE(thread);
  CHECK(thread.error().code == ErrorCode::kUnsupported);
}

TEST_CASE("HEADRACE_ENGINE forces an engine, and nonsense in it is refused") {
  ::setenv("HEADRACE_ENGINE", "pread", 1);
  auto pread = IoThread::start({});
  REQUIRE(pread);
  CHECK((*pread)->info().name == "pread");
  CHECK((*pread)->info().fallback_reason.empty());
  ::setenv("HEADRACE_ENGINE", "fast", 1);
  auto nonsense = IoThread::start({});
  REQUIRE_FALSE(nonsense);
  CHECK(nonsense.error().code == ErrorCode::kInvalidArgument);
  ::unsetenv("HEADRACE_ENGINE");
}

}  // namespace io_thread_test
