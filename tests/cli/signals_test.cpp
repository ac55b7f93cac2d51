// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM, wherever a command is: it ends soon, says so in its exit status, and leaves nothing behind.
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

#include "process.h"

namespace signals_test {

using headrace::test::Child;
using headrace::test::contains;
using headrace::test::has_ended;
using headrace::test::hears;
using headrace::test::is_mounted;
using headrace::test::Outcome;
using headrace::test::read_file;
using headrace::test::skip;
using headrace::test::TempDir;
using headrace::test::Tool;
using headrace::test::wait_until;

namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr int kInterrupted = 128 + SIGINT;
constexpr int kTerminated = 128 + SIGTERM;
constexpr char kCtrlC = '\x03';

bool is_empty_or_missing(const fs::path& folder) {
  return !fs::exists(folder) || fs::is_empty(folder);
}

// Two classes of five files of one byte.
struct DataSet : TempDir {
  DataSet() {
    for (const char* name : {"a", "b"}) {
      for (int i = 0; i < 5; ++i) static_cast<void>(write(std::string(name) + "/" + std::to_string(i) + ".jpg", "x"));
    }
  }
  [[nodiscard]] std::string source() const { return path().string(); }
};

// Signals the command once `begun` holds. A minute would be a hang.
Outcome stop(Child& child, int signal, const std::function<bool()>& begun) {
  REQUIRE(wait_until(begun));
  const auto started = steady_clock::now();
  child.signal(signal);
  Outcome outcome = child.wait();
  CHECK(steady_clock::now() - started < std::chrono::seconds(60));
  return outcome;
}

// Somewhere in the middle of what shows nothing outside: so long after `begun` held, too.
std::function<bool()> after(std::chrono::milliseconds time, const std::function<bool()>& begun) {
  return [time, begun, due = steady_clock::time_point::max()]() mutable {
    if (due == steady_clock::time_point::max() && begun()) due = steady_clock::now() + time;
    return steady_clock::now() > due;
  };
}

// It deals with the signal from now on until its end.
std::function<bool()> hears_signal(const Child& child, int signal) {
  return [pid = child.pid(), signal] { return hears(pid, signal); };
}

// It is the command by now, no copy of this process.
std::function<bool()> has_begun(pid_t pid) {
  return [pid] { return contains(read_file("/proc/" + std::to_string(pid) + "/comm"), "headrace"); };
}

// A data set that takes most of a minute to be looked through, in many steps: the kernel lets nobody go in the middle
// of one.
struct SlowListing {
  SlowListing() {
    if (::access("/dev/fuse", R_OK | W_OK) != 0) skip("needs /dev/fuse");
    for (int i = 0; i < 2000; ++i) fs::create_directory(files.path() / std::to_string(i));
    fs::create_directory(shown);
    slow_fs = std::make_unique<Child>(std::vector<std::string>{files.source(), shown.string(), "--list-ms", "200"},
                                      std::vector<std::string>{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}, "",
                                      HEADRACE_SLOW_FS);
    REQUIRE(wait_until([&] { return is_mounted(shown); }));
  }
  ~SlowListing() {
    slow_fs->signal(SIGTERM);
    static_cast<void>(slow_fs->wait());
  }

  DataSet files;
  TempDir folder;
  fs::path shown = folder.path() / "shown";
  std::unique_ptr<Child> slow_fs;
};

}  // namespace

TEST_CASE("synth takes away what it has made when it is stopped") {
  const Tool tool;
  const fs::path photos = tool.home() / "photos";
  const auto begun = [&] { return fs::exists(photos) && !fs::is_empty(photos); };
  for (const auto& [signal, status] : {std::pair{SIGINT, kInterrupted}, {SIGTERM, kTerminated}}) {
    const auto child = tool.start({"synth", photos.string(), "--files", "2000", "--classes", "3"});
    const Outcome outcome = stop(*child, signal, begun);
    CHECK(outcome.status == status);
    CHECK(contains(outcome.errors, "stopped"));
    CHECK_FALSE(fs::exists(photos));
  }
}

TEST_CASE("simulate, order and diagnose end at once and leave nothing") {
  const Tool tool;
  const DataSet data;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"simulate", data.source(), "--epochs", "3000000", "--policy", "min"},
        {"diagnose", data.source(), "--seconds", "600"}}) {
    CAPTURE(arguments.front());
    const auto child = tool.start(arguments);
    CHECK(stop(*child, SIGINT, after(std::chrono::milliseconds(500), has_begun(child->pid()))).status == kInterrupted);
    CHECK(is_empty_or_missing(tool.home() / "run"));
  }
}

TEST_CASE("read ends its epoch early and prints what it has read") {
  const Tool tool;
  const std::string photos = (tool.home() / "photos").string();
  REQUIRE(tool({"synth", photos, "--files", "4", "--classes", "2"}).status == 0);
  for (const char* how : {"--decode", "--checksum"}) {
    CAPTURE(how);
    const auto child = tool.start({"read", photos, how, "--epochs", "1000000000", "--ram", "16M"});
    const Outcome outcome = stop(*child, SIGINT, [&] { return contains(child->output(), "epoch 1:"); });
    CHECK(outcome.status == kInterrupted);
    CHECK(contains(outcome.output, "source "));  // the table of tiers
    CHECK(contains(outcome.errors, "stopped by a signal"));
  }
}

TEST_CASE("a warm that is stopped keeps what it has fetched and lets go of the tier") {
  const Tool tool;
  const DataSet data;
  const std::string tier = (tool.home() / "tier").string();
  const std::vector<std::string> warm = {"warm", data.source(), "--ssd", tier + ":64M"};
  std::vector<std::string> slow = warm;
  slow.insert(slow.end(), {"--rate-limit", "1B"});  // a byte a second, which each sample has
  const auto child = tool.start(slow);
  const Outcome outcome =
      stop(*child, SIGTERM, after(std::chrono::milliseconds(1500), [&] { return fs::exists(tier + "/tier"); }));
  CHECK(outcome.status == kTerminated);
  CHECK(contains(outcome.output, "stopped"));
  CHECK(tool({"verify", tier}).status == 0);  // the lock is free, all records are whole
  const Outcome resumed = tool(warm);
  CHECK(resumed.status == 0);
  CHECK(contains(resumed.output, "were there already"));
}

TEST_CASE("a warm that waits for its list on a terminal is ended by a Ctrl-C and leaves no list") {
  const Tool tool;
  const DataSet data;
  const auto child =
      tool.start_on_terminal({"warm", data.source(), "--ssd", (tool.home() / "tier").string() + ":64M", "--list", "-"});
  REQUIRE(wait_until(has_begun(child->pid())));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // it shows nothing while it waits
  child->type(kCtrlC);
  CHECK(child->wait().status == kInterrupted);
  CHECK(is_empty_or_missing(tool.home() / "run"));
}

TEST_CASE("verify sums up what it has read, lets go of the tier, and is heard at any rate") {
  const Tool tool;
  const DataSet data;
  const std::string tier = (tool.home() / "tier").string();
  REQUIRE(tool({"warm", data.source(), "--ssd", tier + ":64M"}).status == 0);
  const auto child = tool.start({"verify", tier, "--rate-limit", "1B"});
  const Outcome outcome = stop(*child, SIGINT, after(std::chrono::milliseconds(1500), hears_signal(*child, SIGINT)));
  CHECK(outcome.status == kInterrupted);
  CHECK(contains(outcome.output, " records, "));
  CHECK_FALSE(contains(outcome.output, " 10 records"));
  CHECK(contains(tool({"verify", tier}).output, "10 records"));
}

TEST_CASE("looking through a slow source can be stopped, and no tier stays locked") {
  const SlowListing slow;
  const Tool tool;
  const std::string tier = (tool.home() / "tier").string();
  const std::string source = slow.shown.string();
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"read", source},
                                                    {"warm", source, "--ssd", tier + ":64M"},
                                                    {"warm", source, "--ssd", tier + ":64M", "--dry-run"},
                                                    {"order", source, "--order", "sequential"},
                                                    {"simulate", source}}) {
    CAPTURE(arguments.front());
    const auto child = tool.start(arguments);
    CHECK(stop(*child, SIGINT, after(std::chrono::milliseconds(300), has_begun(child->pid()))).status == kInterrupted);
  }
  const DataSet fast;
  CHECK(tool({"warm", fast.source(), "--ssd", tier + ":64M"}).status == 0);
}

TEST_CASE("a mount that is stopped before it is ready mounts nothing, in the background and in the foreground") {
  const SlowListing slow;
  const Tool tool;
  fs::create_directory(tool.home() / "mnt");
  const fs::path point = tool.home() / "mnt";
  for (const char* where : {"--allow-other", "--foreground"}) {
    CAPTURE(where);
    const auto child = tool.start({"mount", slow.shown.string(), point.string(), "--ram", "64M", where});
    const Outcome outcome = stop(*child, SIGINT, [&] { return is_mounted(point); });
    CAPTURE(outcome.errors);
    CHECK(outcome.status == kInterrupted);
    CHECK(contains(outcome.errors, "stopped by a signal"));
    CHECK(wait_until([&] { return !is_mounted(point); }));
    CHECK(is_empty_or_missing(tool.home() / "run"));
  }
}

TEST_CASE("diagnose takes along the command that it has started, and what that has started") {
  if (::access("/dev/fuse", R_OK | W_OK) != 0) skip("needs /dev/fuse");
  const Tool tool;
  const DataSet data;
  fs::create_directory(tool.home() / "mnt");
  const std::string point = (tool.home() / "mnt").string();
  REQUIRE(tool({"mount", data.source(), point, "--ram", "64M"}).status == 0);
  const fs::path pids = tool.home() / "pids";
  const std::string script = "trap '' TERM; sleep 1000 & echo $$ $! > " + pids.string() + "; wait; wait";
  const auto child = tool.start({"diagnose", point, "--seconds", "600", "--", "sh", "-c", script});
  const Outcome outcome = stop(*child, SIGINT, [&] { return contains(read_file(pids), "\n"); });
  CHECK(tool({"unmount", "--force", point}).status == 0);
  CHECK(outcome.status == kInterrupted);
  CHECK(outcome.output.empty());
  std::istringstream list(read_file(pids));
  for (pid_t pid; list >> pid;) CHECK(wait_until([&] { return has_ended(pid); }));
}

// The last of them come when the mount has ended and its process has not. They must not turn that into a failure.
TEST_CASE("a mount in the foreground that is told to stop again and again has ended well") {
  if (::access("/dev/fuse", R_OK | W_OK) != 0) skip("needs /dev/fuse");
  const Tool tool;
  const DataSet data;
  fs::create_directory(tool.home() / "mnt");
  const auto child =
      tool.start({"mount", data.source(), (tool.home() / "mnt").string(), "--ram", "64M", "--foreground"});
  REQUIRE(wait_until([&] { return contains(child->errors(), "mounted at"); }));
  CHECK(wait_until([&] {
    if (has_ended(child->pid())) return true;
    child->signal(SIGTERM);
    return false;
  }));
  CHECK(child->wait().status == 0);
}

}  // namespace signals_test
