// SPDX-License-Identifier: Apache-2.0
// headrace upgrade: another program goes on with a mount, and no reader notices.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/cache/order.h"
#include "headrace/cli/daemon/control.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/io/result.h"

#include "mount_fixture.h"
#include "process.h"

namespace upgrade_test {

using headrace::cli::ControlClient;
using headrace::cli::format_request;
using headrace::cli::parse_reply;
using headrace::test::contains;
using headrace::test::Fixture;
using headrace::test::Outcome;
using headrace::test::read_file;
using headrace::test::wait_until;
namespace fs = std::filesystem;

namespace {

std::string program_of(pid_t pid) {
  std::error_code failure;
  return fs::read_symlink(fmt::format("/proc/{}/exe", pid), failure).string();
}

// A headrace of its own file, as another version is.
struct Programs : Fixture {
  Programs() {
    for (const fs::path& each : {older, newer}) {
      fs::create_directory(each.parent_path());
      fs::copy_file(HEADRACE_BINARY, each);
    }
  }
  // Runs one of them with the folders of `tool`.
  [[nodiscard]] Outcome run(const fs::path& program, const std::string& words) const {
    return shell("exec " + program.string() + " " + words);
  }
  [[nodiscard]] Outcome shell(const std::string& line) const {
    return tool.start_shell("cd " + data.path().string() + " && " + line)->wait();
  }
  [[nodiscard]] fs::path write_program(const std::string& content) const {
    const fs::path program = data.write("program", content);
    ::chmod(program.c_str(), 0700);
    return program;
  }
  // What the daemon answers to an upgrade to `program`, without the checks of the command.
  [[nodiscard]] headrace::io::Result<std::string> ask_for(const fs::path& program) const {
    auto client = ControlClient::connect(fs::directory_iterator(tool.home() / "run")->path());
    if (!client) return headrace::io::forward_error(std::move(client));
    return client->ask(format_request("upgrade", {{"program", program.string()}}));
  }
  [[nodiscard]] bool is_served_by(const fs::path& program) const {
    const nlohmann::json now = stat();
    return program_of(now["pid"]) == program && program_of(now["supervisor_pid"]) == program;
  }

  const fs::path older = data.path() / "older" / "headrace";
  const fs::path newer = data.path() / "newer" / "headrace";
};

// Opens and reads all files again and again. Nothing of them stays in the page cache, so that the mount is asked.
class Readers {
 public:
  Readers(const fs::path& source, const fs::path& shown, int count) {
    for (const auto& entry : fs::recursive_directory_iterator(source)) {
      if (entry.is_regular_file())
        files_.push_back({shown / fs::relative(entry.path(), source), read_file(entry.path())});
    }
    for (int i = 0; i < count; ++i) threads_.emplace_back([this, i] { read_all(static_cast<std::size_t>(i)); });
  }
  ~Readers() { stop(); }
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  void stop() {
    stopped_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  [[nodiscard]] int reads() const { return reads_; }
  [[nodiscard]] int failures() const { return failures_; }

 private:
  struct File {
    fs::path path;
    std::string content;
  };
  void read_all(std::size_t next) {
    while (!stopped_) {
      const File& file = files_[next++ % files_.size()];
      if (!is_read(file)) ++failures_;
      ++reads_;
    }
  }
  static bool is_read(const File& file) {
    const int fd = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    std::string content(file.content.size() + 1, '\0');
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    const ssize_t count = ::read(fd, content.data(), content.size());
    ::close(fd);
    if (count < 0) return false;
    content.resize(static_cast<std::size_t>(count));
    return content == file.content;
  }

  std::vector<File> files_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stopped_ = false;
  std::atomic<int> reads_ = 0;
  std::atomic<int> failures_ = 0;
};

}  // namespace

TEST_CASE("upgrades under 16 readers fail no read, and both processes are the new program") {
  const Programs fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.run(fixture.older, "mount train mnt --ram 20M --ssd tier:64M --log-level warning").status == 0);
  REQUIRE(fixture.tool({"set", point, "ram=40M"}).status == 0);
  REQUIRE(fixture.is_served_by(fixture.older));
  const pid_t supervisor = fixture.stat()["supervisor_pid"];
  Readers readers(fixture.source, fixture.mount_point, 16);
  for (int round = 0; round < 2; ++round) {
    for (const fs::path& program : {fixture.newer, fixture.older}) {
      const Outcome outcome = fixture.run(program, "upgrade mnt");
      CAPTURE(outcome.errors);
      REQUIRE(outcome.status == 0);
      CHECK(fixture.is_served_by(program));
      const int before = readers.reads();
      CHECK(wait_until([&] { return readers.reads() > before + 16; }));
    }
  }
  readers.stop();
  MESSAGE(readers.reads() << " reads");
  CHECK(readers.failures() == 0);
  const nlohmann::json stat = fixture.stat();
  CHECK(stat["supervisor_pid"] == supervisor);
  CHECK(stat["mount"]["ram_bytes"] == 40 << 20);
  CHECK(wait_until([&] { return fixture.stat()["store"]["tiers"][1]["state"] == "ok"; }));
  CHECK(contains(read_file(fmt::format("/proc/{}/cmdline", supervisor)), "--log-level=warning"));

  const Outcome unmounted = fixture.tool({"unmount", "--force", point});
  CAPTURE(unmounted.errors);
  CHECK(unmounted.status == 0);
  CHECK(wait_until([&] { return headrace::test::has_ended(supervisor); }));
}

TEST_CASE("an upgraded mount goes on as any other: over its source, in the foreground, after a kill, at a signal") {
  const Programs fixture;
  const auto child = fixture.tool.start_shell("cd " + fixture.data.path().string() + " && exec " +
                                              fixture.older.string() + " mount train train --foreground");
  REQUIRE(wait_until([&] { return contains(child->errors(), " mounted at "); }));
  const std::string content = read_file(fixture.source / "cat" / "7.jpg");
  CHECK(content.size() == 7000);
  const Outcome outcome = fixture.run(fixture.newer, "upgrade train");
  CAPTURE(outcome.errors);
  REQUIRE(outcome.status == 0);
  CHECK(program_of(child->pid()) == fixture.newer);
  CHECK(read_file(fixture.source / "cat" / "7.jpg") == content);

  const auto worker = [&] {
    const Outcome stat = fixture.tool({"stat", fixture.source.string(), "--json"});
    return stat.status == 0 ? nlohmann::json::parse(stat.output)["pid"].get<pid_t>() : -1;
  };
  const pid_t killed = worker();
  REQUIRE(::kill(killed, SIGKILL) == 0);
  CHECK(wait_until([&] { return worker() > 0 && worker() != killed; }));
  CHECK(read_file(fixture.source / "dog" / "9.jpg").size() == 9000);
  CHECK(program_of(worker()) == fixture.newer);

  child->signal(SIGTERM);
  CHECK(child->wait().status == 0);
  CHECK_FALSE(headrace::test::is_mounted(fixture.source));
}

TEST_CASE("an order that was found is followed on by the next worker, and by the next program") {
  constexpr std::size_t kSamples = 400;
  constexpr std::size_t kBytes = 120'000;  // more than memory holds: where all is held no order is looked for
  const Programs fixture;
  for (std::size_t i = 0; i < kSamples; ++i) {
    static_cast<void>(fixture.data.write(fmt::format("many/class{}/{:04}.jpg", i % 4, i), std::string(kBytes, 'x')));
  }
  REQUIRE(fixture.run(fixture.older, "mount many mnt --order auto --ram 33M").status == 0);
  std::vector<fs::path> samples;
  for (const auto& entry : fs::recursive_directory_iterator(fixture.mount_point)) {
    if (entry.is_regular_file()) samples.push_back(entry.path());
  }
  std::ranges::sort(samples);
  REQUIRE(samples.size() == kSamples);
  const auto order = headrace::cache::make_order("torch-distributed:seed=0", {.sample_count = kSamples});
  REQUIRE(order.has_value());
  const auto read_epoch = [&](std::uint64_t epoch) {
    const auto drawn = (*order)->epoch(epoch).value();
    for (const headrace::cache::SampleIndex sample : drawn) {
      CHECK(read_file(samples[sample]).size() == kBytes);
      std::this_thread::sleep_for(std::chrono::microseconds(500));  // loaders are no faster; the learner is not either
    }
  };
  std::uint64_t epoch = 0;
  while (epoch < 60 && fixture.stat()["mount"]["order_found_by"] == "") read_epoch(epoch++);
  const nlohmann::json found = fixture.stat()["mount"];
  REQUIRE(found["order_found_by"] != "");
  const auto goes_on = [&](std::uint64_t after) {
    const nlohmann::json now = fixture.stat()["mount"];
    CHECK(now["order"] == found["order"]);
    CHECK(now["order_found_by"] == found["order_found_by"]);
    CHECK(now["takeovers"] == after);
    read_epoch(epoch++);
    const nlohmann::json then = fixture.stat()["mount"];
    CHECK(then["order"] == found["order"]);
    CHECK(then["orders_given_up"] == found["orders_given_up"]);
  };
  const pid_t killed = fixture.stat()["pid"];
  REQUIRE(::kill(killed, SIGKILL) == 0);
  REQUIRE(wait_until([&] { return fixture.stat()["pid"] != killed; }));
  goes_on(1);
  REQUIRE(fixture.run(fixture.newer, "upgrade mnt").status == 0);
  goes_on(2);
  REQUIRE(fixture.tool({"order", "set", fixture.mount_point.string(), "auto"}).status == 0);
  const pid_t worker = fixture.stat()["pid"];
  REQUIRE(::kill(worker, SIGKILL) == 0);
  REQUIRE(wait_until([&] { return fixture.stat()["pid"] != worker; }));
  CHECK(fixture.stat()["mount"]["order"] == "");  // it was forgotten
}

TEST_CASE("an upgrade that cannot be is refused before anything happens") {
  const Programs fixture;
  const std::string point = fixture.mount_point.string();
  CHECK(fixture.tool({"upgrade", point}).status == 1);  // nobody serves it
  const fs::path away = fixture.data.path() / "away";
  fs::create_directory(away);
  const auto mount = fixture.tool.start_shell("cd " + away.string() + " && exec " + fixture.older.string() +
                                              " mount ../train ../mnt --ram 20M");
  REQUIRE(mount->wait().status == 0);
  const pid_t worker = fixture.stat()["pid"];

  fs::remove_all(away);
  const Outcome refused = fixture.run(fixture.newer, "upgrade mnt");
  CHECK(refused.status != 0);
  CHECK(contains(refused.errors, away.string()));
  const Outcome by_hand = fixture.tool({"take-over", "0", "a", "b"});
  CHECK(by_hand.status != 0);
  CHECK(contains(by_hand.errors, "headrace upgrade MOUNTPOINT"));
  auto client = ControlClient::connect(fs::directory_iterator(fixture.tool.home() / "run")->path());
  REQUIRE(client);
  for (const char* program : {"", "headrace", "/nonexistent/headrace"}) {
    const auto reply = client->ask(format_request("upgrade", {{"program", program}}));
    REQUIRE(reply);
    CHECK_FALSE(parse_reply(*reply));
  }
  CHECK(fixture.stat()["pid"] == worker);
  CHECK(read_file(fixture.mount_point / "cat" / "1.jpg").size() == 1000);
}

// Neither a file that is no program, nor one that runs and fails, as a headrace does that knows no handover.
TEST_CASE("a program that cannot go on where the mount runs is refused, and the worker stays") {
  const Programs fixture;
  REQUIRE(fixture.run(fixture.older, "mount train mnt --ram 20M").status == 0);
  const pid_t worker = fixture.stat()["pid"];
  for (const char* content : {"no program", "#!/bin/sh\nexit 1\n"}) {
    CAPTURE(content);
    const auto reply = fixture.ask_for(fixture.write_program(content));
    REQUIRE(reply);
    CHECK_FALSE(parse_reply(*reply));
    CHECK(fixture.stat()["pid"] == worker);
  }
}

TEST_CASE("a mount whose next program has gone when it is to begin stays with the one it has") {
  const Programs fixture;
  REQUIRE(fixture.run(fixture.older, "mount train mnt --ram 20M").status == 0);
  const pid_t worker = fixture.stat()["pid"];
  const auto reply = fixture.ask_for(fixture.write_program("#!/bin/sh\nexec rm -- \"$0\"\n"));
  REQUIRE(wait_until([&] {
    const Outcome stat = fixture.tool({"stat", fixture.mount_point.string(), "--json"});
    return stat.status == 0 && nlohmann::json::parse(stat.output)["pid"] != worker;
  }));
  CHECK(fixture.is_served_by(fixture.older));
  fixture.check_equal_trees(fixture.mount_point);
}

TEST_CASE("a mount that has gone on with other names is upgraded with these, and shows more of them") {
  const Programs fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.run(fixture.older, "mount train mnt --ram 20M").status == 0);
  static_cast<void>(fixture.data.write("train/cat/00.jpg", "first"));
  const Outcome refreshed = fixture.tool({"refresh", point});
  CHECK(contains(refreshed.output, "1 names are new, and are shown"));
  REQUIRE(fixture.run(fixture.newer, "upgrade mnt").status == 0);
  CHECK(fixture.is_served_by(fixture.newer));
  CHECK(read_file(fixture.mount_point / "cat/00.jpg") == "first");
  static_cast<void>(fixture.data.write("train/ape/0.jpg", "second"));
  CHECK(contains(fixture.tool({"refresh", point}).output, "2 names are new, and are shown"));
  CHECK(read_file(fixture.mount_point / "ape/0.jpg") == "second");
  CHECK(read_file(fixture.mount_point / "dog/9.jpg") == read_file(fixture.source / "dog/9.jpg"));
  CHECK(fixture.stat()["mount"]["renewals"] == 2);
}

TEST_CASE("a mount over the records of a pack is upgraded as well") {
  const Programs fixture;
  const std::string content(64'000, 'r');
  static_cast<void>(fixture.data.write("pack/raw.bin", content));
  REQUIRE(
      fixture.run(fixture.older, "mount pack mnt --ram 20M --records stride=64 --order torch-random:seed=1").status ==
      0);
  const Outcome outcome = fixture.run(fixture.newer, "upgrade mnt");
  CAPTURE(outcome.errors);
  REQUIRE(outcome.status == 0);
  CHECK(fixture.is_served_by(fixture.newer));
  CHECK(read_file(fixture.mount_point / "raw.bin") == content);
}

TEST_CASE("upgrades turn nothing on that was off, and leave no descriptor open") {
  const Programs fixture;
  const std::string mount = fixture.older.string() + " mount train mnt --ram 20M";
  REQUIRE(fixture.shell("HEADRACE_FOREGROUND=false exec " + mount).status == 0);
  const std::string process = fmt::format("/proc/{}", fixture.stat()["supervisor_pid"].get<pid_t>());
  const auto descriptors = [&] {
    return std::distance(fs::directory_iterator(process + "/fd"), fs::directory_iterator());
  };
  std::ptrdiff_t before = 0;
  for (const fs::path& program : {fixture.newer, fixture.older, fixture.newer}) {
    const Outcome outcome = fixture.run(program, "upgrade mnt");
    CAPTURE(outcome.errors);
    REQUIRE(outcome.status == 0);
    CHECK(fs::read_symlink(process + "/cwd") == "/");  // in the foreground it would be where it was mounted
    if (before == 0) before = descriptors();
  }
  CHECK(wait_until([&] { return descriptors() == before; }));  // the pipe of a worker that just began is closed
}

TEST_CASE("a mount point whose name is no UTF-8 is handed over") {
  const Programs fixture;
  const fs::path point = fixture.data.path() / "m\xff";
  fs::create_directory(point);
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point.string(), "--ram", "20M"}).status == 0);
  const Outcome outcome = fixture.shell("exec " + fixture.newer.string() + " upgrade 'm\xff'");
  const bool shown = read_file(point / "cat" / "7.jpg").size() == 7000;
  const Outcome unmounted = fixture.tool({"unmount", "--force", point.string()});
  CAPTURE(outcome.errors);
  CHECK(unmounted.status == 0);
  CHECK(outcome.status == 0);
  CHECK(shown);
}

}  // namespace upgrade_test
