// SPDX-License-Identifier: Apache-2.0
// Mounting, looking, warming, unmounting and ending, with the real program.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/cli/daemon/control.h"
#include "headrace/cli/daemon/protocol.h"

#include "mount_fixture.h"
#include "process.h"

namespace mount_test {

using headrace::cli::ControlClient;
using headrace::cli::format_request;
using headrace::cli::parse_reply;
using headrace::test::contains;
using headrace::test::Fixture;
using headrace::test::has_ended;
using headrace::test::is_mounted;
using headrace::test::Outcome;
using headrace::test::read_file;
using headrace::test::skip;
using headrace::test::TempDir;
using headrace::test::wait_until;
using nlohmann::json;
using std::chrono::steady_clock;

namespace fs = std::filesystem;

TEST_CASE("mount returns when the data set can be read, unmount when the daemon is gone") {
  const Fixture fixture;
  const Outcome mounted =
      fixture.tool({"mount", fixture.source.string(), fixture.mount_point.string(), "--ram", "64M"});
  CAPTURE(mounted.errors);
  REQUIRE(mounted.status == 0);
  CHECK(mounted.output.empty());
  CHECK(mounted.errors.empty());
  fixture.check_equal_trees(fixture.mount_point);
  const json stat = fixture.stat();
  CHECK(stat["data_set"]["samples"] == 40);
  CHECK(stat["mount_point"] == fixture.mount_point.string());
  if (stat["mount"]["read_bytes"] > 0) CHECK(stat["mount"]["read_wait_seconds"] > 0.0);
  // Not the bare path, which umount(8) would take for this mount.
  CHECK(contains(read_file("/proc/self/mountinfo"), " fuse.headrace headrace:" + fixture.source.string() + " "));

  const Outcome unmounted = fixture.tool({"unmount", "--force", fixture.mount_point.string()});
  CHECK(unmounted.status == 0);
  CHECK(unmounted.errors.empty());
  CHECK_FALSE(is_mounted(fixture.mount_point));
  CHECK(has_ended(stat["pid"].get<pid_t>()));
  CHECK(fixture.tool({"unmount", fixture.mount_point.string()}).status == 0);  // nothing there is as good
  CHECK(contains(read_file("/proc/mounts"), fixture.mount_point.string()) == false);
}

TEST_CASE("a mount is told an epoch by the numbers that it gave the samples") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"}).status == 0);
  const Outcome numbered = fixture.tool({"order", "number", point});
  CHECK(std::count(numbered.output.begin(), numbered.output.end(), '\n') == 40);
  CHECK(numbered.output.starts_with("cat/0.jpg\ncat/1.jpg\ncat/10.jpg\n"));

  const std::string file = fixture.data.write("epoch", "39\n0\n7\n").string();
  CHECK(fixture.tool({"order", "tell", point, file, "--name", "me"}).status == 0);
  CHECK(fixture.stat()["mount"]["order"] == "told:me");
  CHECK(fixture.tool({"order", "tell", point, file, "--name", "me"}).status == 0);
  CHECK(fixture.stat()["mount"]["epoch"] == 1);  // the same teller goes on
  CHECK(fixture.tool({"order", "tell", point, file, "--name", "other"}).status == 0);
  CHECK(fixture.stat()["mount"]["order"] == "told:other");

  for (const char* wrong : {"40\n", "-1\n", "cat/0.jpg\n", "", "4294967296\n"}) {
    CAPTURE(wrong);
    const Outcome refused = fixture.tool({"order", "tell", point, fixture.data.write("epoch", wrong).string()});
    CHECK(refused.status != 0);
    CHECK(std::count(refused.errors.begin(), refused.errors.end(), '\n') == 1);
  }
  CHECK(fixture.stat()["mount"]["order"] == "told:other");
  CHECK(fixture.stat()["mount"]["orders_given_up"] == 0);
}

TEST_CASE("a mount drops its order when it is told to learn, and shows what it saw to order --check") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const std::string source = fixture.source.string();
  REQUIRE(fixture.tool({"mount", source, point, "--ram", "64M", "--order", "sequential"}).status == 0);
  const Outcome nothing = fixture.tool({"order", source, "--order", "sequential", "--check", point});
  CHECK(nothing.status == 2);
  CHECK(contains(nothing.errors, "opens of 0 samples tell nothing"));
  std::istringstream numbered(fixture.tool({"order", "number", point}).output);
  for (std::string path; std::getline(numbered, path);) CHECK(std::ifstream(fixture.mount_point / path).good());
  CHECK(wait_until([&] { return fixture.stat()["mount"]["opens"] == 40; }));
  const Outcome checked = fixture.tool({"order", source, "--order", "sequential", "--check", point});
  CAPTURE(checked.errors);
  CHECK(checked.output == "epoch 0 from position 0 on: 40 of 40 opens are where the order has them\n");

  REQUIRE(fixture.tool({"order", "set", point, "auto"}).status == 0);
  CHECK(fixture.stat()["mount"]["order"] == "");
  CHECK(fixture.stat()["mount"]["orders_given_up"] == 0);
  REQUIRE(fixture.tool({"set", point, "order=sequential"}).status == 0);
  CHECK(fixture.stat()["mount"]["order"] == "sequential");
  REQUIRE(fixture.tool({"set", point, "order=auto"}).status == 0);
  CHECK(fixture.stat()["mount"]["order"] == "");
}

TEST_CASE("a mount that was just read is not unmounted without --force, one that was not is") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"}).status == 0);
  CHECK_FALSE(fixture.stat()["mount"].contains("seconds_since_open"));
  CHECK(fixture.tool({"unmount", point}).status == 0);

  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"}).status == 0);
  static_cast<void>(read_file(fixture.mount_point / "cat" / "3.jpg"));
  REQUIRE(wait_until([&] { return fixture.stat()["mount"].contains("seconds_since_open"); }));
  CHECK(fixture.stat()["mount"]["seconds_since_open"] < 10.0);
  const Outcome refused = fixture.tool({"unmount", point});
  CHECK(refused.status == 1);
  CHECK(contains(refused.errors, "is being read"));
  CHECK(contains(refused.errors, "--force"));
  CHECK(is_mounted(fixture.mount_point));
  CHECK(fixture.tool({"unmount", "--force", point}).status == 0);
  CHECK_FALSE(is_mounted(fixture.mount_point));
}

TEST_CASE("unmount names who uses a mount, and --force ends the daemon all the same") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"}).status == 0);
  const json stat = fixture.stat();
  const auto user = fixture.tool.start_shell("cd " + point + " && touch " + (fixture.tool.home() / "in").string() +
                                             " && exec sleep 1000");
  REQUIRE(wait_until([&] { return fs::exists(fixture.tool.home() / "in"); }));
  const auto waiting = fixture.tool.start({"unmount", point});
  REQUIRE(wait_until([&] { return contains(waiting->errors(), "waiting"); }));
  CHECK(contains(waiting->errors(), fmt::format("(pid {}) works in it", user->pid())));
  CHECK(fixture.tool({"unmount", "--force", point}).status == 0);
  CHECK(has_ended(stat["pid"].get<pid_t>()));
  CHECK(waiting->wait().status == 0);
}

TEST_CASE("unmount names a mount namespace that keeps the daemon, and --force ends it all the same") {
  if (::geteuid() != 0) skip("needs root");
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"}).status == 0);
  const json stat = fixture.stat();
  const std::string ready = (fixture.tool.home() / "in").string();
  const auto other = fixture.tool.start_shell("exec unshare --mount sh -c 'touch " + ready + "; exec sleep 1000'");
  REQUIRE(wait_until([&] { return fs::exists(ready); }));
  const auto waiting = fixture.tool.start({"unmount", point});
  REQUIRE(wait_until([&] { return contains(waiting->errors(), "waiting"); }));
  CHECK(contains(waiting->errors(), fmt::format("(pid {}) still has it mounted in its mount namespace", other->pid())));
  CHECK(fixture.tool({"unmount", "--force", point}).status == 0);
  CHECK(has_ended(stat["pid"].get<pid_t>()));
  CHECK(waiting->wait().status == 0);
}

TEST_CASE(
    "a folder that cannot be read fails the mount by name - accepted, it is left out visibly, and only this time") {
  if (::geteuid() != 0) skip("needs root, which reads everything unless it gives that up");
  const Fixture fixture;
  const std::string folder = (fixture.source / "cat").string();
  const std::string words = " mount '" + fixture.source.string() + "' '" + fixture.mount_point.string() + "' --ram 64M";
  const std::string without = "exec setpriv --bounding-set=-dac_override,-dac_read_search '" HEADRACE_BINARY "'";
  REQUIRE(::chmod(folder.c_str(), 0) == 0);
  const Outcome refused = fixture.tool.start_shell(without + words)->wait();
  CAPTURE(refused.errors);
  CHECK(refused.status != 0);
  CHECK(contains(refused.errors, "/cat cannot be read"));
  CHECK_FALSE(is_mounted(fixture.mount_point));

  const Outcome accepted = fixture.tool.start_shell(without + words + " --accept-unreadable")->wait();
  CAPTURE(accepted.errors);
  CHECK(accepted.status == 0);
  CHECK(contains(accepted.errors, "1 folders or files could not be read"));
  CHECK_FALSE(fs::exists(fixture.mount_point / "cat" / "1.jpg"));
  const json stat = json::parse(fixture.tool({"stat", fixture.mount_point.string(), "--json"}).output);
  CHECK(stat["data_set"]["unreadable"] == 1);
  CHECK(stat["data_set"]["samples"] == 20);
  CHECK(fixture.tool({"unmount", "--force", fixture.mount_point.string()}).status == 0);

  REQUIRE(::chmod(folder.c_str(), 0755) == 0);
  CHECK(fixture.tool({"mount", fixture.source.string(), fixture.mount_point.string(), "--ram", "64M"}).status == 0);
  fixture.check_equal_trees(fixture.mount_point);
}

// The code of that error is the byte of a line end, which ends a part of what the daemon says to its parent.
TEST_CASE("a machine without /dev/fuse is told what to do, in one line") {
  if (::geteuid() != 0) skip("needs root");
  const Fixture fixture;
  const std::string words = " mount '" + fixture.source.string() + "' '" + fixture.mount_point.string() + "' --ram 64M";
  const std::string hide = "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; mknod -m 444 /dev/urandom c 1 9; ";
  const std::string script = "exec unshare --mount sh -ec \"" + hide + "exec '" HEADRACE_BINARY "'" + words + "\"";
  const Outcome outcome = fixture.tool.start_shell(script)->wait();
  CAPTURE(outcome.errors);
  CHECK(outcome.status == 1);
  CHECK(outcome.errors.starts_with("headrace: mount " + fixture.mount_point.string() + ": no /dev/fuse"));
  CHECK(std::count(outcome.errors.begin(), outcome.errors.end(), '\n') == 1);
  CHECK_FALSE(is_mounted(fixture.mount_point));
}

TEST_CASE("when unmount returns, the file system of a tier can be unmounted") {
  if (::geteuid() != 0) skip("needs root");
  const Fixture fixture;
  const std::string disk = (fixture.tool.home() / "disk").string();
  fs::create_directory(disk);
  const std::string point = fixture.mount_point.string();
  for (int round = 0; round < 5; ++round) {
    REQUIRE(::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64M") == 0);
    const Outcome mounted =
        fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M", "--ssd", disk + "/tier:32M"});
    CAPTURE(mounted.errors);
    REQUIRE(mounted.status == 0);
    fixture.check_equal_trees(fixture.mount_point);
    CHECK(fixture.tool({"unmount", "--force", point}).status == 0);
    const bool freed = ::umount(disk.c_str()) == 0;
    CHECK(freed);
    if (!freed) ::umount2(disk.c_str(), MNT_DETACH);
  }
}

TEST_CASE("commands say that the process that serves is stopped, at once") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"}).status == 0);
  const pid_t worker = fixture.stat()["pid"];
  REQUIRE(::kill(worker, SIGSTOP) == 0);
  REQUIRE(wait_until([&] { return contains(read_file(fmt::format("/proc/{}/stat", worker)), ") T "); }));
  const auto started = steady_clock::now();
  const Outcome outcome = fixture.tool({"stat", point});
  CHECK(steady_clock::now() - started < std::chrono::seconds(20));  // an answer of that process never comes
  CHECK(outcome.status == 1);
  const std::string remedy = fmt::format("kill -CONT {}", worker);
  CHECK(contains(outcome.errors, remedy));
  for (const char* command : {"warm", "diagnose", "refresh"}) {  // none takes the mount for a folder
    CAPTURE(command);
    CHECK(contains(fixture.tool({command, point}).errors, remedy));
  }
  CHECK(contains(fixture.tool({"doctor", point}).output, remedy));
  REQUIRE(::kill(worker, SIGCONT) == 0);
  CHECK(fixture.tool({"stat", point}).status == 0);
}

TEST_CASE("a mount may lie over its source") {
  const Fixture fixture;
  const Outcome mounted = fixture.tool({"mount", fixture.source.string(), fixture.source.string(), "--ram", "64M"});
  CAPTURE(mounted.errors);
  REQUIRE(mounted.status == 0);
  CHECK(is_mounted(fixture.source));
  CHECK(read_file(fixture.source / "cat" / "3.jpg") == std::string(3000, 'd'));
  CHECK(fixture.tool({"unmount", "--force", fixture.source.string()}).status == 0);
  CHECK_FALSE(is_mounted(fixture.source));
  CHECK(read_file(fixture.source / "cat" / "3.jpg") == std::string(3000, 'd'));
}

TEST_CASE("mount refuses bad input in one line and leaves nothing behind") {
  const Fixture f;
  const std::string source = f.source.string();
  const std::string point = f.mount_point.string();
  const std::string tier = (f.tool.home() / "tier").string();
  static_cast<void>(f.tool({"unmount", "--force", point}));  // makes the runtime folder
  f.check_refused({"mount", source + "x", point}, 1, source + "x");
  f.check_refused({"mount", source + "/cat/1.jpg", point}, 2, "not a folder");
  f.check_refused({"mount", source, point + "/missing"}, 1, "mkdir -p");
  f.check_refused({"mount", source, source + "/cat/1.jpg"}, 1, "not a folder");
  f.check_refused({"mount", source, source + "/cat"}, 1, "not empty");
  f.check_refused({"mount", source, point, "--ram", "12X"}, 2, "--ram '12X'");
  f.check_refused({"mount", source, point, "--ram", "500T"}, 2, "--ram 500T");
  f.check_refused({"mount", source, point, "--ram", "101%"}, 2, "--ram '101%'");
  f.check_refused({"mount", source, point, "--ram", "1M"}, 2, "--ram 1M: a mount needs at least 20M");
  f.check_refused({"mount", source, point, "--ram", "19M"}, 2, "--ram 19M: a mount needs at least 20M");
  f.check_refused({"mount", source, point, "--ssd", tier}, 2, "PATH:SIZE");
  f.check_refused({"mount", source, point, "--ram", "16"}, 2, "did you mean 16G?");
  f.check_refused({"mount", source, point, "--ssd", tier + ":200"}, 2, "did you mean 200G?");
  f.check_refused({"mount", source, point, "--ssd", tier + ":0"}, 2, "size 0");
  f.check_refused({"mount", source, point, "--ssd", tier + ":8000T"}, 2, "file system");
  f.check_refused({"mount", source, point, "--ssd", tier + ":50%"}, 2, "percentage");
  f.check_refused({"mount", source, point, "--ssd", tier + ":1G,free=101%"}, 2, "'101%' is more than 100%");
  f.check_refused({"mount", source, point, "--ssd", tier + ":1G,free=100%"}, 2, "nothing would be left");
  f.check_refused({"mount", source, point, "--ssd", tier + ":1G,free=8000T"}, 2, "nothing would be left");
  f.check_refused({"mount", source, point, "--ssd", tier + ":1G,free=0"}, 2, "keeps nothing free; leave it out");
  f.check_refused({"mount", source, point, "--ssd", tier + ":1G,free="}, 2, "'' is not a size");
  f.check_refused({"mount", source, point, "--ssd", tier + ":1G,"}, 2, "nothing follows the comma");
  f.check_refused({"mount", source, point, "--ssd", tier + ":1G,free=16"}, 2, "did you mean 16G?");
  f.check_refused({"mount", source, point, "--hdd", tier + ":1G,keep=1G"}, 2, "only free= may follow the size");
  f.check_refused({"mount", source, point, "--ssd", source + "/tier:1G"}, 2, "inside the source");
  f.check_refused({"mount", source, point, "--ssd", tier + ":1G", "--hdd", tier + ":1G"}, 2, "tier already");
  f.check_refused({"mount", source, point, "--ssd", point + "/tier:1G"}, 2, "inside the mount point");
  f.check_refused({"mount", source, source, "--samples", source + "/cat/1.jpg"}, 2, "inside the mount point");
  if (::geteuid() == 0) {
    f.check_refused({"mount", source, point, "--scratch", point + "/scratch"}, 2, "inside the mount point");
    f.check_refused({"mount", source, point, "--scratch", source + "/scratch"}, 2, "to which nothing is to be written");
  } else {
    f.check_refused({"mount", source, point, "--scratch", source + "-scratch"}, 2, "needs root");
  }
  f.check_refused({"mount", source, source, "--order", "file:" + source + "/cat/1.jpg"}, 2, "inside the mount point");
  f.check_refused({"mount", source, point, "--order", "dance"}, 2, "dance");
  f.check_refused({"mount", source, point, "--order", "bird=sequential"}, 1, "no folder bird");
  f.check_refused({"mount", source, point, "--order", "cat/1.jpg=sequential"}, 1, "no folder cat/1.jpg");
  f.check_refused({"mount", source, point, "--peers", "10.0.0.1"}, 2, "--share");
  f.check_refused({"mount", source, point, "--share", "1G"}, 2, "--peers");
  f.check_refused({"mount", source, point, "--peers", "8.8.8.8", "--share", "1G"}, 2, "address is public");
  f.check_refused({"mount", source, point, "--order", "cat=dance"}, 2, "dance");
  f.check_refused({"mount", source, point, "--order", "cat=sequential", "--order", "sequential"}, 2,
                  "names its folder");
  f.check_refused({"mount", source, point, "--order", "cat=sequential", "--order", "cat=sequential"}, 2, "that folder");
  f.check_refused({"mount", source, point, "--order", "file:/nonexistent"}, 1, "/nonexistent");
  f.check_refused({"mount", source, point, "--log-level", "loud"}, 2, "--log-level");
  f.check_refused({"mount", source, point, "--records", "auto"}, 2, "no such pack");
  f.check_refused({"mount", source, point, "--records", "auto", "--order", "cat=sequential"}, 2, "over all records");
  f.check_refused({"mount", source, point, "--records", "dance", "--order", "sequential"}, 2, "no such pack");
  f.check_refused({"mount", source, point, "--records", "auto", "--order", "sequential"}, 2, "no such pack");
}

TEST_CASE("each folder has an order of its own, on the command line, in a config file and by order set") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const std::string both = "cat=sequential dog=torch-distributed:seed=1";
  const std::vector<std::string> mount = {"mount", fixture.source.string(), point, "--ram", "64M"};
  const auto mount_with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), mount.begin(), mount.end());
    return fixture.tool(more);
  };
  REQUIRE(mount_with({"--order", "cat=sequential", "--order", "dog=torch-distributed:seed=1"}).status == 0);
  CHECK(fixture.stat()["mount"]["order"] == both);
  CHECK(fixture.stat()["mount"]["order_set"] == "cat");
  CHECK(contains(fixture.tool({"stat", point}).output, "reading cat: epoch 0"));
  CHECK(fixture.tool({"order", "set", point, "dog=sequential", "cat=sequential"}).status == 0);
  const std::string shown = fixture.tool({"order", "show", point}).output;
  CHECK(contains(shown, "dog=sequential cat=sequential epoch 0"));
  CHECK(contains(shown, "reading: dog"));
  REQUIRE(::kill(fixture.stat()["pid"].get<pid_t>(), SIGKILL) == 0);  // what was set outlives the worker
  REQUIRE(wait_until([&] { return fixture.tool({"stat", point}).status == 0; }));
  CHECK(fixture.stat()["mount"]["order"] == "dog=sequential cat=sequential");
  REQUIRE(fixture.tool({"unmount", "--force", point}).status == 0);

  const fs::path config = fixture.tool.home() / "headrace.toml";
  std::ofstream(config) << "order = [\"cat=sequential\", \"dog=torch-distributed:seed=1\"]\n";
  REQUIRE(mount_with({"--config", config.string()}).status == 0);
  CHECK(fixture.stat()["mount"]["order"] == both);
}

TEST_CASE("a mount point in use is refused and the mount there lives on") {
  const Fixture fixture;
  REQUIRE(fixture.tool({"mount", fixture.source.string(), fixture.mount_point.string(), "--ram", "64M"}).status == 0);
  const Outcome second = fixture.tool({"mount", fixture.source.string(), fixture.mount_point.string()});
  CHECK(second.status == 1);
  CHECK(contains(second.errors, fixture.mount_point.string()));
  CHECK(is_mounted(fixture.mount_point));
  fixture.check_equal_trees(fixture.mount_point);
}

TEST_CASE("SIGTERM and SIGINT end a foreground mount cleanly and soon, readers or not") {
  const Fixture fixture;
  for (const int signal : {SIGTERM, SIGINT}) {
    CAPTURE(signal);
    const auto child =
        fixture.tool.start({"mount", fixture.source.string(), fixture.mount_point.string(), "--foreground"});
    REQUIRE(wait_until([&] { return contains(child->errors(), "mounted at"); }));
    std::atomic<bool> done{false};
    std::thread reader([&] {
      while (!done) static_cast<void>(read_file(fixture.mount_point / "dog" / "7.jpg"));
    });
    const auto started = steady_clock::now();
    child->signal(signal);
    const Outcome outcome = child->wait();
    CHECK(steady_clock::now() - started < std::chrono::seconds(20));  // to wait for the reader takes for ever
    done = true;
    reader.join();
    CHECK(outcome.status == 0);
    CHECK_FALSE(is_mounted(fixture.mount_point));
    CHECK(fs::is_empty(fixture.tool.home() / "run"));
  }
}

TEST_CASE("a mount outlives the process that serves it") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"}).status == 0);
  const pid_t worker = fixture.stat()["pid"];
  REQUIRE(::kill(worker, SIGKILL) == 0);
  REQUIRE(wait_until([&] { return fixture.tool({"stat", point}).status == 0; }));
  CHECK(fixture.stat()["pid"] != worker);
  fixture.check_equal_trees(fixture.mount_point);
}

TEST_CASE("the records of a pack are pushed, also by the process that takes over") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const TempDir packs;
  std::string content;
  for (unsigned page = 0; page < 3072; ++page) {
    std::string text = std::to_string(page);
    text.resize(4096, static_cast<char>('a' + page % 26));
    content += text;
  }
  packs.write("rows.bin", content);
  REQUIRE(fixture
              .tool({"mount", packs.path().string(), point, "--ram", "24M", "--records", "stride=8192", "--order",
                     "torch-distributed:seed=1"})
              .status == 0);
  const auto has_pushed = [&] { return fixture.stat()["mount"]["held_samples"] > 100; };
  REQUIRE(wait_until(has_pushed));
  CHECK(fixture.stat()["mount"]["order"] == "torch-distributed:seed=1");
  CHECK(read_file(fixture.mount_point / "rows.bin") == content);
  const pid_t worker = fixture.stat()["pid"];
  REQUIRE(::kill(worker, SIGKILL) == 0);
  REQUIRE(wait_until([&] { return fixture.tool({"stat", point}).status == 0; }));
  REQUIRE(wait_until(has_pushed));
  CHECK(fixture.stat()["pid"] != worker);
  CHECK(read_file(fixture.mount_point / "rows.bin") == content);
}

// Rows of 8 KiB, of which the header says `said`, each page with a text of its own.
std::string npy(unsigned rows, unsigned said) {
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(said) + ", 8192), }";
  header.resize(117, ' ');
  std::string bytes = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() + 1) + '\0' + header + '\n';
  for (unsigned page = 0; page < 2 * rows; ++page) {
    std::string text = std::to_string(page) + " of " + std::to_string(said);
    text.resize(4096, static_cast<char>('a' + page % 26));
    bytes += text;
  }
  return bytes;
}

TEST_CASE("a pack that is broken is a file like others, and log, stat and doctor say why") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const TempDir packs;
  const std::string content = npy(1200, 1201);
  packs.write("rows.npy", content);
  REQUIRE(fixture
              .tool({"mount", packs.path().string(), point, "--ram", "24M", "--records", "auto", "--order",
                     "torch-distributed:seed=1"})
              .status == 0);
  const json fallbacks = fixture.stat()["mount"]["fallbacks"];
  const auto names_it = [](const json& line) { return contains(line.get<std::string>(), "rows.npy: records lie out"); };
  CHECK(std::count_if(fallbacks.begin(), fallbacks.end(), names_it) == 1);
  CHECK(contains(fixture.tool({"stat", point}).output, "rows.npy: records lie out"));
  CHECK(contains(fixture.tool({"doctor", point}).output, "rows.npy: records lie out"));
  CHECK(read_file(fixture.mount_point / "rows.npy") == content);
}

TEST_CASE("the shards of a data set are one sequence of records") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const TempDir packs;
  packs.write("train/shard-1.npy", npy(500, 500));
  packs.write("train/shard-0.npy", npy(700, 700));
  const std::string source = packs.path().string();
  const Outcome first = fixture.tool({"order", source, "--records", "auto", "--order", "sequential", "-n", "701"});
  CHECK(contains(first.output, "\ntrain/shard-0.npy\t5726336\t8192\ntrain/shard-1.npy\t128\t8192\n"));
  REQUIRE(fixture.tool({"mount", source, point, "--ram", "24M", "--records", "npy", "--order", "torch-random:seed=1"})
              .status == 0);
  REQUIRE(wait_until([&] { return fixture.stat()["mount"]["held_samples"] > 100; }));
  CHECK(fixture.stat()["mount"]["order"] == "torch-random:seed=1");
  for (const std::vector<std::string>& order :
       {std::vector<std::string>{"order", "set", point, "sequential"}, {"set", point, "ram=20M", "order=sequential"}}) {
    const Outcome refused = fixture.tool(order);
    CHECK(refused.status == 1);
    CHECK(contains(refused.errors, "mount it anew"));
  }
  CHECK(fixture.stat()["mount"]["ram_bytes"] == 24 << 20);
  for (const char* shard : {"train/shard-0.npy", "train/shard-1.npy"})
    CHECK(read_file(fixture.mount_point / shard) == read_file(packs.path() / shard));
}

TEST_CASE("packs of two formats are refused until one is named") {
  const Fixture fixture;
  const TempDir packs;
  packs.write("rows.npy", npy(2, 2));
  packs.write("rows.tfrecord", std::string("\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xd8\xea\x82\xa2", 16));
  const std::string source = packs.path().string();
  fixture.check_refused({"mount", source, fixture.mount_point.string(), "--records", "auto"}, 2, "npy or tfrecord");
  CHECK(fixture.tool({"order", source, "--records", "npy", "--order", "sequential", "--print", "index"}).output ==
        "0\n1\n");
  const std::string list = packs.write("list", "rows.npy\n").string();
  fixture.check_refused({"read", source, "--records", "npy", "--samples", list}, 2, "leave out --samples");
}

TEST_CASE("a line for the journal begins with its priority, any other with the time") {
  const Fixture fixture;
  const std::string mount = std::string("exec ") + HEADRACE_BINARY + " mount " + fixture.source.string() + " " +
                            fixture.mount_point.string() + " --foreground";
  for (const bool journal : {false, true}) {
    CAPTURE(journal);
    // As systemd.exec(5) announces it: the device and the inode of stderr.
    const std::string announced = journal ? "export JOURNAL_STREAM=$(stat -L -c %d:%i /dev/stderr); " : "";
    const auto child = fixture.tool.start_shell(announced + mount);
    REQUIRE(wait_until([&] { return contains(child->errors(), " mounted at "); }));
    child->signal(SIGTERM);
    const Outcome outcome = child->wait();
    CAPTURE(outcome.errors);
    CHECK(outcome.status == 0);
    const std::string line = fixture.source.string() + " mounted at " + fixture.mount_point.string();
    CHECK(contains("\n" + outcome.errors, (journal ? "\n<6>" : "]: ") + line));
    CHECK(contains(outcome.errors, " info headrace[") != journal);
  }
}

TEST_CASE("a mount whose daemon was killed whole is cleared by unmount, and by the next mount") {
  const Fixture fixture;
  const std::string source = fixture.source.string();
  const std::string point = fixture.mount_point.string();
  for (const bool remount : {false, true}) {
    CAPTURE(remount);
    REQUIRE(fixture.tool({"mount", source, point, "--ram", "64M"}).status == 0);
    const json stat = fixture.stat();
    REQUIRE(::kill(stat["pid"].get<pid_t>(), SIGSTOP) == 0);  // so that it cannot end in order
    REQUIRE(::kill(stat["supervisor_pid"].get<pid_t>(), SIGKILL) == 0);
    REQUIRE(::kill(stat["pid"].get<pid_t>(), SIGKILL) == 0);
    REQUIRE(wait_until([&] { return has_ended(stat["pid"].get<pid_t>()); }));
    if (remount) {
      const Outcome again = fixture.tool({"mount", source, point, "--ram", "64M"});
      CAPTURE(again.errors);
      REQUIRE(again.status == 0);
      fixture.check_equal_trees(fixture.mount_point);
    }
    CHECK(fixture.tool({"unmount", "--force", point}).status == 0);
    CHECK_FALSE(is_mounted(point));
  }
}

TEST_CASE("a command that asks a mount waits while another process takes the place of its worker") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"}).status == 0);
  const json before = fixture.stat();
  const auto worker = before["pid"].get<pid_t>();
  const auto supervisor = before["supervisor_pid"].get<pid_t>();
  REQUIRE(::kill(supervisor, SIGSTOP) == 0);  // so that it takes its time
  CHECK(::kill(worker, SIGKILL) == 0);
  CHECK(wait_until([&] { return has_ended(worker); }));
  const auto asking = fixture.tool.start({"stat", point, "--json"});
  // One of its threads asks the kernel, which has nobody to hand the question to.
  const auto threads = [&] {
    std::error_code gone;
    return std::distance(fs::directory_iterator(fmt::format("/proc/{}/task", asking->pid()), gone),
                         fs::directory_iterator());
  };
  CHECK(wait_until([&] { return threads() == 2 || has_ended(asking->pid()); }));
  CHECK(::kill(supervisor, SIGCONT) == 0);
  const Outcome asked = asking->wait();
  CAPTURE(asked.errors);
  // A machine may take longer than the command waits. Then it says so, and not that there is no mount.
  const bool has_waited = asked.status == 0 || contains(asked.errors, "is mounted, but its daemon does not listen");
  CHECK(has_waited);
  CHECK(wait_until([&] { return fixture.tool({"stat", point}).status == 0; }));
  CHECK(fixture.stat()["pid"] != worker);
}

TEST_CASE("ls lists mounts, whose they are, how full, how good, and which have lost their daemon") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const auto row = [&]() -> json {
    const Outcome listed = fixture.tool({"ls", "--json"});
    REQUIRE(listed.status == 0);
    const json document = json::parse(listed.output);
    for (const json& mount : document["mounts"]) {
      if (mount["mount_point"] == point) return mount;
    }
    return nullptr;
  };
  CHECK(row().is_null());
  const std::string tier = (fixture.tool.home() / "tier").string() + ":64M";
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M", "--ssd", tier}).status == 0);
  REQUIRE(fixture.tool({"warm", point, "--ram"}).status == 0);
  REQUIRE(read_file(fixture.mount_point / "cat/3.jpg").size() == 3000);
  json mount;
  CHECK(wait_until([&] { return (mount = row())["opens"] != 0; }));
  CAPTURE(mount.dump());
  CHECK(mount["source"] == fixture.source.string());
  CHECK(mount["user"] != "?");
  CHECK(mount["answers"] == true);
  CHECK(mount["memory_bytes"].get<std::uint64_t>() >= 380'000);  // 2 x 190 kB
  CHECK(mount["disk_budget_bytes"] == 64 << 20);
  CHECK(mount["hits"] == mount["opens"]);
  const Outcome text = fixture.tool({"ls"});
  CHECK(contains(text.output, point + "  "));
  CHECK(contains(text.output, "100%"));
  const json stat = fixture.stat();
  // Stopped first, or the one that is left would bring up another.
  for (const int signal : {SIGSTOP, SIGKILL}) {
    for (const char* pid : {"supervisor_pid", "pid"}) ::kill(stat[pid].get<pid_t>(), signal);
  }
  REQUIRE(wait_until([&] { return row()["answers"] == false; }));
  CHECK(contains(fixture.tool({"ls"}).output, "end it with headrace unmount " + point));
}

TEST_CASE("the order of a running mount can be told and changed") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"}).status == 0);
  CHECK(contains(fixture.tool({"order", "show", point}).output, "unknown"));
  CHECK(fixture.stat()["mount"]["learns_order"] == true);  // nothing said: it is looked for
  CHECK(fixture.tool({"order", "set", point, "torch-distributed:seed=5", "--epoch", "2"}).status == 0);
  const Outcome shown = fixture.tool({"order", "show", point});
  CHECK(contains(shown.output, "torch-distributed:seed=5"));
  CHECK(contains(shown.output, "epoch 2"));
  const Outcome refused = fixture.tool({"order", "set", point, "dance"});
  CHECK(refused.status == 2);
  CHECK(contains(refused.errors, "dance"));
}

TEST_CASE("stat --watch into a pipe writes plain lines until it is told to stop or the mount ends") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"}).status == 0);
  const auto watch = fixture.tool.start({"stat", point, "--watch"});
  REQUIRE(wait_until([&] { return contains(watch->output(), "opens/s"); }));
  watch->signal(SIGINT);
  const Outcome outcome = watch->wait();
  CHECK(outcome.status == 0);
  CHECK_FALSE(contains(outcome.output, "\x1b"));
  const auto second = fixture.tool.start({"stat", point, "--watch"});
  CHECK(fixture.tool({"unmount", "--force", point}).status == 0);
  CHECK(second->wait().status == 1);
}

TEST_CASE("settings come from the command line, then the environment, then the config file") {
  Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const std::string config = fixture.data
                                 .write("mount.toml", "source = \"" + fixture.source.string() + "\"\nmountpoint = \"" +
                                                          point + "\"\nram = \"32M\"\nepoch = 7\n")
                                 .string();
  const auto ram_with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"mount", "--config", config};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome mounted = fixture.tool(arguments);
    CAPTURE(mounted.errors);
    REQUIRE(mounted.status == 0);
    const std::uint64_t ram = fixture.stat()["mount"]["ram_bytes"];
    REQUIRE(fixture.tool({"unmount", "--force", point}).status == 0);
    return ram >> 20;
  };
  CHECK(ram_with({}) == 32);
  fixture.tool.set("HEADRACE_RAM=48M");
  CHECK(ram_with({}) == 48);
  CHECK(ram_with({"--ram", "64M"}) == 64);
}

TEST_CASE("what is asked for with --ram is all that a mount uses, down to the least") {
  Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const auto parts_with = [&](const std::string& ram) {
    REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", ram}).status == 0);
    const json stat = fixture.stat();
    REQUIRE(fixture.tool({"unmount", "--force", point}).status == 0);
    const json& mount = stat["mount"];
    CHECK(mount["staging_bytes"] == stat["store"]["tiers"][0]["budget_bytes"]);
    CHECK(mount["budget_bytes"] == mount["ram_bytes"]);
    CHECK(mount["shortage"] == "");
    return std::vector<std::uint64_t>{mount["ram_bytes"].get<std::uint64_t>() >> 20,
                                      mount["staging_bytes"].get<std::uint64_t>() >> 20,
                                      mount["page_cache_budget_bytes"].get<std::uint64_t>() >> 20};
  };
  CHECK(parts_with("20M") == std::vector<std::uint64_t>{20, 17, 3});
  CHECK(parts_with("26M") == std::vector<std::uint64_t>{26, 17, 9});
  CHECK(parts_with("64M") == std::vector<std::uint64_t>{64, 32, 32});
  CHECK(parts_with("512M") == std::vector<std::uint64_t>{512, 64, 448});
  const std::vector<std::uint64_t> none = parts_with("0");
  CHECK(none[0] + none[2] == 0);
  CHECK(none[1] > 0);
}

TEST_CASE("stat and warm name the remedy where no mount is") {
  const Fixture fixture;
  const Outcome stat = fixture.tool({"stat", fixture.mount_point.string()});
  CHECK(stat.status == 1);
  CHECK(contains(stat.errors, "headrace mount SOURCE " + fixture.mount_point.string()));
  CHECK(fixture.tool({"warm", fixture.source.string()}).status == 2);
}

TEST_CASE("the control folder, its socket and the log are private") {
  const Fixture fixture;
  REQUIRE(fixture.tool({"mount", fixture.source.string(), fixture.mount_point.string(), "--ram", "64M"}).status == 0);
  for (const char* folder : {"run", "cache"}) {
    struct stat status {};
    REQUIRE(::stat((fixture.tool.home() / folder).c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
  }
  for (const auto& entry : fs::directory_iterator(fixture.tool.home() / "run")) {
    struct stat status {};
    REQUIRE(::stat(entry.path().c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
  }
}

TEST_CASE("a daemon answers requests of every kind, whatever their arguments are, and lives on") {
  const Fixture fixture;
  REQUIRE(fixture.tool({"mount", fixture.source.string(), fixture.mount_point.string(), "--ram", "64M"}).status == 0);
  const fs::path socket = fs::directory_iterator(fixture.tool.home() / "run")->path();
  auto client = ControlClient::connect(socket);
  REQUIRE(client);
  const std::string list = (fixture.source / "cat/3.jpg").string();  // no list of samples
  const std::vector<json> values = {nullptr,
                                    true,
                                    -1,
                                    1.5e300,
                                    UINT64_MAX,
                                    "auto",
                                    "file:" + list,
                                    "file:/dev/null",
                                    std::string(3000, '\xff'),
                                    json::array({1}),
                                    json::object()};
  for (const char* command : {"version", "stat", "warm", "warm-forecast", "warm-state", "warm-stop", "refresh",
                              "refresh-state", "order", "dance", ""}) {
    for (const json& value : values) {
      CAPTURE(command);
      CAPTURE(value.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 40));
      json arguments;
      for (const char* name : {"ram", "disk", "order", "spec", "epoch", "epochs", "rate_bytes_per_second"}) {
        arguments[name] = value;
      }
      arguments["ram"] = false;
      const auto reply = client->ask(format_request(command, arguments));
      REQUIRE_MESSAGE(reply.has_value(), reply.error().message());
      CHECK((parse_reply(*reply).has_value() || !parse_reply(*reply).error().context.empty()));
    }
  }
  CHECK(fixture.stat()["mount"]["takeovers"] == 0);
}

TEST_CASE("a daemon waits for no pipe and reads no device when it is given an order") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const std::string fifo = (fixture.tool.home() / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  static_cast<void>(fixture.tool({"unmount", "--force", point}));  // makes the runtime folder
  for (const std::string& list : {fifo, std::string("/dev/zero")}) {
    fixture.check_refused({"mount", fixture.source.string(), point, "--order", "file:" + list}, 2, "no regular file");
  }
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"}).status == 0);
  for (const std::string& list : {fifo, std::string("/dev/zero")}) {
    const Outcome refused = fixture.tool({"order", "set", point, "file:" + list});
    CHECK(refused.status == 2);
    CHECK(contains(refused.errors, "no regular file"));
  }
  CHECK(fixture.tool({"warm", point, "--list", "-", "--dry-run"}, "cat/1.jpg\n").status == 0);  // kept in memory
  const Outcome of_memory = fixture.tool({"warm", point, "--list", "-"}, "cat/1.jpg\n");
  CHECK(of_memory.status == 2);
  CHECK(contains(of_memory.errors, "headrace pin " + point));
  CHECK(contains(fixture.tool({"warm", point, "--rate-limit", "1M"}).errors, "source-rate="));
  CHECK(fixture.tool({"warm", point}).status == 0);
}

TEST_CASE("a runtime folder that others may enter is refused") {
  const Fixture fixture;
  fs::create_directory(fixture.tool.home() / "run");
  ::chmod((fixture.tool.home() / "run").c_str(), 0755);
  const Outcome outcome = fixture.tool({"mount", fixture.source.string(), fixture.mount_point.string()});
  CHECK(outcome.status == 1);
  CHECK(contains(outcome.errors, "0700"));
  CHECK_FALSE(is_mounted(fixture.mount_point));
}

}  // namespace mount_test
