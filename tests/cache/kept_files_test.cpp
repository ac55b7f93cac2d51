// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/kept_files.h"

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>

#include "headrace/io/slow_calls.h"
#include "headrace/io/timer_thread.h"
#include "headrace/io/unique_fd.h"

#include "support/temp_dir.h"

namespace kept_files_test {
namespace {

namespace fs = std::filesystem;
using headrace::cache::EntryId;
using headrace::cache::KeptFile;
using headrace::cache::KeptFiles;
using headrace::io::SlowCalls;
using headrace::io::TimerThread;
using headrace::io::UniqueFd;
using headrace::test::TempDir;

UniqueFd open_file(const fs::path& file) {
  return UniqueFd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
}

bool is_open(const fs::path& file) {
  for (const auto& descriptor : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (fs::read_symlink(descriptor, gone) == file) return true;
  }
  return false;
}

TEST_CASE("a file that nobody reads is let go of") {
  const TempDir dir;
  const fs::path file = fs::canonical(dir.write("f", "content"));
  TimerThread timers("hr-timer");
  SlowCalls slow("hr-slow");
  KeptFiles kept(timers, slow, std::chrono::milliseconds(5));
  kept.keep(1, {.fd = open_file(file)});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (is_open(file) && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  CHECK_FALSE(is_open(file));
  CHECK(kept.count() == 0);
  kept.close();
  timers.stop();
}

TEST_CASE("a server that takes its time to close a file holds up neither who lets go of it nor the timers") {
  const TempDir dir;
  const fs::path file = fs::canonical(dir.write("f", "content"));
  TimerThread timers("hr-timer");
  SlowCalls slow("hr-slow");
  KeptFiles kept(timers, slow);
  std::promise<void> answer;
  std::promise<void> ticks;
  slow.run([&answer] { answer.get_future().wait(); });  // to this server
  kept.keep(1, {.fd = open_file(file)});
  kept.keep(2, {.fd = open_file(file)});
  std::shared_ptr<const KeptFile> read = kept.find(2, {}, nullptr);
  kept.let_go(1);
  kept.close();
  read.reset();
  timers.after({}, [&ticks] { ticks.set_value(); });
  CHECK(ticks.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  CHECK(is_open(file));
  answer.set_value();
  slow.stop(std::chrono::seconds(60));
  CHECK_FALSE(is_open(file));
  timers.stop();
}

TEST_CASE("a file that stays open serves its own version alone, and the longest unread goes where there are too many") {
  const TempDir dir;
  const fs::path file = dir.write("f", "content");
  TimerThread timers("hr-timer");
  SlowCalls slow("hr-slow");
  KeptFiles kept(timers, slow);
  kept.keep(1, {.fd = open_file(file), .identity = {.size_bytes = 7}});
  CHECK(kept.find(1, {.size_bytes = 7}, nullptr) != nullptr);
  CHECK(kept.find(1, {.size_bytes = 8}, nullptr) == nullptr);
  CHECK(kept.count() == 0);
  for (EntryId entry = 0; entry <= headrace::cache::kKeptFilesMax; ++entry) kept.keep(entry, {.fd = open_file(file)});
  CHECK(kept.count() == headrace::cache::kKeptFilesMax);
  CHECK(kept.find(0, {}, nullptr) == nullptr);
  CHECK(kept.find(1, {}, nullptr) != nullptr);
  kept.close();
  CHECK(kept.count() == 0);
  timers.stop();
}

}  // namespace

}  // namespace kept_files_test
