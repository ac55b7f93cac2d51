// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/peer_watch.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "headrace/io/mutex.h"
#include "headrace/io/unique_fd.h"

#include "process.h"

namespace peer_watch_test {
namespace {

using headrace::cli::PeerWatch;
using headrace::io::ErrorCode;
using headrace::io::make_error;
using headrace::io::Status;
using headrace::test::TempDir;
using headrace::test::wait_until;
using Names = PeerWatch::Names;

constexpr headrace::cli::PeerWatchTimes kOften{std::chrono::milliseconds(5), std::chrono::milliseconds(5),
                                               std::chrono::minutes(1)};

// Whom a watch has told last, and how often.
class Told {
 public:
  Status operator()(const Names& names) {
    const headrace::io::MutexLock lock(mutex_);
    if (names.front() == "bad") return make_error(ErrorCode::kInvalidArgument, "peer 'bad': cannot be meant");
    last_ = names;
    ++calls_;
    told_.insert(names);
    return {};
  }
  [[nodiscard]] Names last() const {
    const headrace::io::MutexLock lock(mutex_);
    return last_;
  }
  [[nodiscard]] bool ever(const Names& names) const {
    const headrace::io::MutexLock lock(mutex_);
    return told_.contains(names);
  }
  [[nodiscard]] unsigned calls() const {
    const headrace::io::MutexLock lock(mutex_);
    return calls_;
  }

 private:
  mutable headrace::io::Mutex mutex_;
  Names last_ HEADRACE_GUARDED_BY(mutex_);
  unsigned calls_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::set<Names> told_ HEADRACE_GUARDED_BY(mutex_);
};

// A list of which each look gets what the test gives it. A look waits for that.
class GivenList {
 public:
  explicit GivenList(const TempDir& dir) : path_(dir.path() / "list"), next_(dir.path() / "next") {
    REQUIRE(::mkfifo(path_.c_str(), 0600) == 0);
  }
  // Returns once the look before has ended, and this one has begun.
  void give(const std::string& content, bool is_last = false) {
    std::ofstream look(path_);
    if (is_last) {
      std::ofstream(next_) << content;
    } else {
      REQUIRE(::mkfifo(next_.c_str(), 0600) == 0);
    }
    std::filesystem::rename(next_, path_);  // before this look can end: the next one finds another pipe
    look << content;
  }
  [[nodiscard]] std::string word() const { return "file:" + path_.string(); }

 private:
  const std::filesystem::path path_;
  const std::filesystem::path next_;
};

// A list that is there at once: a look never sees half of it.
void write_list(const TempDir& dir, const std::string& content) {
  const std::filesystem::path written = dir.write("new", content);
  std::filesystem::rename(written, dir.path() / "list");
}

}  // namespace

TEST_CASE("peer watch: a file that changes is another list, and one that is gone changes nothing") {
  const TempDir dir;
  write_list(dir, "n1\nn2\n");
  Told told;
  const std::string word = "file:" + (dir.path() / "list").string();
  PeerWatch watch(
      {word}, {"n1", "n2"}, [&](const Names& names) { return told(names); }, kOften);
  CHECK(wait_until([&] { return told.last() == Names{"n1", "n2"}; }));
  write_list(dir, "n1\nn3\n");
  CHECK(wait_until([&] { return told.last() == Names{"n1", "n3"}; }));
  std::filesystem::remove(dir.path() / "list");
  CHECK(wait_until([&] { return headrace::test::contains(watch.state().failure, "cannot be read"); }));
  CHECK(told.last() == Names{"n1", "n3"});
  write_list(dir, "# nobody\n");
  CHECK(wait_until([&] { return headrace::test::contains(watch.state().failure, "empty"); }));
  write_list(dir, "bad\n");
  CHECK(wait_until([&] { return headrace::test::contains(watch.state().failure, "cannot be meant"); }));
  write_list(dir, "n4\n");
  CHECK(wait_until([&] { return told.last() == Names{"n4"}; }));
  CHECK(wait_until([&] { return watch.state().failure.empty(); }));
}

TEST_CASE("peer watch: a list that is seen once may be half of one, and does not count") {
  const TempDir dir;
  GivenList list(dir);
  Told told;
  const PeerWatch watch(
      {list.word()}, {"n1"}, [&](const Names& names) { return told(names); }, kOften);
  list.give("n1\n");
  for (int round = 0; round < 3; ++round) {
    list.give("n1\nn2\n");
    list.give("n1\n");
  }
  list.give("n1\nn3\n");
  list.give("n1\nn3\n", true);
  CHECK(wait_until([&] { return told.last() == Names{"n1", "n3"}; }));
  CHECK_FALSE(told.ever({"n1", "n2"}));
}

TEST_CASE("peer watch: names that stay are looked up again") {
  Told told;
  const PeerWatch watch(
      {"n1", "n2"}, {"n1", "n2"}, [&](const Names& names) { return told(names); }, kOften);
  CHECK(wait_until([&] { return told.calls() >= 5; }));
  CHECK(told.last() == Names{"n1", "n2"});
}

TEST_CASE("peer watch: a change counts at once, and one that cannot be leaves all as it was") {
  Told told;
  PeerWatch watch({"n1"}, {"n1"}, [&](const Names& names) { return told(names); });
  REQUIRE(watch.change({"n1", "n2"}).has_value());
  CHECK(told.last() == Names{"n1", "n2"});
  CHECK(watch.state().words == Names{"n1", "n2"});
  for (const Names& words : {Names{"bad"}, Names{"file:/nowhere/list"}, Names{"slurm"}}) {
    CHECK_FALSE(watch.change(words).has_value());
    CHECK(watch.state().words == Names{"n1", "n2"});
  }
  CHECK(told.last() == Names{"n1", "n2"});
}

TEST_CASE("peer watch: a list that never comes leaves the peers as they are, and others can be named meanwhile") {
  const TempDir dir;
  const std::filesystem::path pipe = dir.path() / "list";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);  // to open it takes until somebody writes
  const std::string word = "file:" + pipe.string();
  Told told;
  {
    PeerWatch watch({"n1"}, {"n1"}, [&](const Names& names) { return told(names); },
                    {.every = std::chrono::minutes(1), .patience = std::chrono::milliseconds(50)});
    const Status changed = watch.change({word});
    REQUIRE_FALSE(changed.has_value());
    CHECK(changed.error().code == ErrorCode::kTimedOut);
    CHECK(headrace::test::contains(changed.error().message(), word));
    CHECK(watch.state().words == Names{"n1"});
    CHECK_FALSE(watch.change({word}).has_value());  // while the first look still waits
    REQUIRE(watch.change({"n2"}).has_value());
    CHECK(told.last() == Names{"n2"});
  }
  const headrace::io::UniqueFd writer(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));  // the look that waits ends
  CHECK(writer.get() >= 0);
}

TEST_CASE("peer watch: it ends while its list does not come") {
  const TempDir dir;
  const std::filesystem::path pipe = dir.path() / "list";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  Told told;
  {
    const PeerWatch watch({"file:" + pipe.string()}, {"n1"}, [&](const Names& names) { return told(names); },
                          {.patience = std::chrono::hours(1)});
  }
  CHECK(told.calls() == 0);
  const headrace::io::UniqueFd writer(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));
  CHECK(writer.get() >= 0);
}

}  // namespace peer_watch_test
