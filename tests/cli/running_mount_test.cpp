// SPDX-License-Identifier: Apache-2.0
// What an operator does to a mount that runs, and what the systemd unit leaves it.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/mount.h>
#include <unistd.h>

#include "headrace/cli/daemon/control.h"
#include "headrace/cli/daemon/protocol.h"

#include "mount_fixture.h"
#include "process.h"

namespace running_mount_test {

namespace fs = std::filesystem;
using headrace::cli::ControlClient;
using headrace::cli::format_request;
using headrace::cli::parse_reply;
using headrace::io::ErrorCode;
using headrace::test::contains;
using headrace::test::Fixture;
using headrace::test::Outcome;
using headrace::test::read_file;
using headrace::test::skip;
using headrace::test::wait_until;
using nlohmann::json;

TEST_CASE("the budget of a mount is changed while it is read, and stays changed when its worker dies") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"}).status == 0);
  const auto pushed = [&] { return fixture.stat()["mount"]["page_cache_budget_bytes"].get<std::uint64_t>(); };
  const std::uint64_t before = pushed();
  const Outcome more = fixture.tool({"set", point, "ram=128M"});
  CAPTURE(more.errors);
  CHECK(more.status == 0);
  CHECK(pushed() == before + (64 << 20));
  CHECK(fixture.stat()["mount"]["ram_bytes"] == 128 << 20);
  const pid_t worker = fixture.stat()["pid"];
  REQUIRE(::kill(worker, SIGKILL) == 0);
  REQUIRE(wait_until([&] { return fixture.tool({"stat", point}).status == 0; }));
  CHECK(fixture.stat()["mount"]["ram_bytes"] == 128 << 20);
  CHECK(fixture.tool({"set", point, "ram=0", "order=sequential"}).status == 0);
  CHECK(pushed() == 0);
  CHECK(fixture.stat()["mount"]["order"] == "sequential");
  fixture.check_equal_trees(fixture.mount_point);
  CHECK(fixture.tool({"set", point, "ram=64M"}).status == 0);
  CHECK(wait_until([&] { return fixture.stat()["mount"]["held_samples"] == 40; }));

  for (const char* wrong : {"ram=8", "ram=", "ram", "hdd=/x:1G", "ram=10M", "ram=900T", "order=unknown-order"}) {
    CAPTURE(wrong);
    const Outcome refused = fixture.tool({"set", point, wrong});
    CHECK(refused.status == 2);
    CHECK(std::count(refused.errors.begin(), refused.errors.end(), '\n') == 1);
  }
  CHECK(fixture.tool({"set", point, "ram=64M", "ram=65M"}).status == 2);
  CHECK(fixture.tool({"set", point, "ram=96M", "source-rate=1M", "order=unknown-order"}).status == 2);
  CHECK(fixture.tool({"set", point, "ram=900T", "source-rate=1M", "order=sequential"}).status == 2);
  CHECK(fixture.stat()["mount"]["source_rate_bytes_per_second"] == 0);
  CHECK(fixture.stat()["mount"]["ram_bytes"] == 64 << 20);
}

TEST_CASE(
    "the source rate of a mount holds back what is read ahead, holds up no reader, and is changed while it is read") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const auto held = [&] { return fixture.stat()["mount"]["held_samples"].get<int>(); };
  // All files have 380 kB together: that takes minutes.
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M", "--source-rate", "1K"}).status == 0);
  CHECK(fixture.stat()["mount"]["source_rate_bytes_per_second"] == 1024);
  fixture.check_equal_trees(fixture.mount_point);
  CHECK(held() < 40);
  const pid_t worker = fixture.stat()["pid"];
  CHECK(fixture.tool({"set", point, "source-rate=2K"}).status == 0);
  REQUIRE(::kill(worker, SIGKILL) == 0);
  REQUIRE(wait_until([&] { return fixture.tool({"stat", point}).status == 0; }));
  CHECK(fixture.stat()["mount"]["source_rate_bytes_per_second"] == 2048);
  CHECK(held() < 40);
  CHECK(fixture.tool({"set", point, "source-rate=0"}).status == 0);
  CHECK(wait_until([&] { return held() == 40; }));
  CHECK(fixture.tool({"set", point, "source-rate=fast"}).status == 2);
}

TEST_CASE("samples of a list are pinned and evicted while a mount is read, and stay pinned when its worker dies") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture
              .tool({"mount", fixture.source.string(), point, "--ram", "64M", "--ssd",
                     (fixture.tool.home() / "tier").string() + ":64M"})
              .status == 0);
  const auto number = [&](const char* name) { return fixture.stat()["mount"][name].get<std::uint64_t>(); };
  CHECK(fixture.tool({"pin", point}).output.empty());
  const std::string list = fixture.data.write("list", "cat/3.jpg\ndog/19.jpg\ncat/3.jpg\n").string();
  const Outcome pinned = fixture.tool({"pin", point, list});
  CAPTURE(pinned.errors);
  REQUIRE(pinned.status == 0);
  CHECK(number("pinned_samples") == 2);
  CHECK(wait_until([&] { return number("pinned_held_samples") == 2; }));
  CHECK(contains(fixture.tool({"stat", point}).output, "2 samples, 24.0 KiB; 2 of them are held"));
  const auto tier = [&] { return fixture.stat()["store"]["tiers"][1]; };
  REQUIRE(wait_until([&] { return tier()["samples"] == 38; }));  // two files are empty
  CHECK(fixture.tool({"evict", point, fixture.data.write("suspect", "cat/5.jpg\n").string()}).status == 0);
  CHECK(tier()["evictions"] == 1);
  REQUIRE(::kill(fixture.stat()["pid"].get<pid_t>(), SIGKILL) == 0);
  REQUIRE(wait_until([&] { return fixture.tool({"stat", point}).status == 0; }));
  CHECK(fixture.tool({"pin", point}).output == "cat/3.jpg\ndog/19.jpg\n");

  const std::string wrong = fixture.data.write("wrong", "cat/4.jpg\ncat/none.jpg\n").string();
  for (const char* command : {"pin", "evict"}) {
    const Outcome refused = fixture.tool({command, point, wrong});
    CHECK(refused.status == 1);
    CHECK(contains(refused.errors, "headrace: list " + wrong + ", line 2: 'cat/none.jpg' is no sample"));
  }
  CHECK(number("pinned_samples") == 2);
  CHECK(fixture.tool({"set", point, "ram=0"}).status == 0);
  const Outcome too_large = fixture.tool({"pin", point, fixture.data.write("more", "cat/4.jpg\n").string()});
  CHECK(too_large.status == 2);
  CHECK(contains(too_large.errors, "takes 4.0 KiB of memory beside 24.0 KiB that are pinned, and 0 B may be pinned"));
  CHECK(contains(fixture.tool({"stat", point}).output, "not kept now, since 0 B may be pinned"));
  CHECK(fixture.tool({"set", point, "ram=64M"}).status == 0);

  CHECK(wait_until([&] { return number("pinned_held_samples") == 2; }));
  CHECK(fixture.tool({"evict", point, list}).status == 0);
  CHECK(number("pinned_samples") == 0);
  CHECK(fixture.tool({"pin", point}).output.empty());
  fixture.check_equal_trees(fixture.mount_point);
}

TEST_CASE("a mount says from its start whether it ends with its worker") {
  const Fixture fixture;
  REQUIRE(fixture.tool({"mount", fixture.source.string(), fixture.mount_point.string(), "--ram", "64M"}).status == 0);
  const bool is_said = contains(fixture.stat()["mount"]["fallbacks"].dump(), "ends with its worker process");
  REQUIRE(::kill(fixture.stat()["pid"].get<pid_t>(), SIGKILL) == 0);
  if (is_said) {
    CHECK(wait_until([&] { return !headrace::test::is_mounted(fixture.mount_point); }));
  } else {
    CHECK(wait_until([&] { return fixture.tool({"stat", fixture.mount_point.string()}).status == 0; }));
  }
}

TEST_CASE("a budget that is none, or more than there is, is refused by the daemon itself") {
  const Fixture fixture;
  REQUIRE(fixture.tool({"mount", fixture.source.string(), fixture.mount_point.string(), "--ram", "64M"}).status == 0);
  auto client = ControlClient::connect(std::filesystem::directory_iterator(fixture.tool.home() / "run")->path());
  REQUIRE(client);
  for (const char* wrong : {"{}", "[]", R"({"ram_bytes": -1})", R"({"ram_bytes": "8G"})", R"({"ram_bytes": 1e300})",
                            R"({"ram_bytes": 18446744073709551615})", R"({"ram_bytes": 9000000000000000000})"}) {
    CAPTURE(wrong);
    const auto reply = client->ask(format_request("set", nlohmann::json::parse(wrong)));
    REQUIRE(reply);
    const auto refused = parse_reply(*reply);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
    CHECK(fixture.stat()["mount"]["ram_bytes"] == 64 << 20);
  }
}

TEST_CASE("a mount works with the capabilities that the systemd unit leaves it") {
  if (::geteuid() != 0 || std::system("setpriv --version >/dev/null 2>&1") != 0) skip("needs root and setpriv");
  const Fixture fixture;
  const std::string unit = read_file(HEADRACE_REFERENCE "/headrace@.service");
  const std::string name = "\nCapabilityBoundingSet=CAP_";
  const std::size_t start = unit.find(name);
  REQUIRE(start != std::string::npos);
  std::string set = "-all,+" + unit.substr(start + name.size(), unit.find('\n', start + 1) - start - name.size());
  for (std::size_t at = set.find(" CAP_"); at != std::string::npos; at = set.find(" CAP_")) set.replace(at, 5, ",+");
  std::transform(set.begin(), set.end(), set.begin(), [](unsigned char letter) { return std::tolower(letter); });
  const std::string tier = (fixture.tool.home() / "tier").string() + ":64M";
  const auto child = fixture.tool.start_shell(
      "exec setpriv --bounding-set=" + set + " --inh-caps=-all --no-new-privs " HEADRACE_BINARY " mount " +
      fixture.source.string() + " " + fixture.mount_point.string() + " --foreground --allow-other --ssd " + tier);
  REQUIRE(wait_until([&] { return contains(child->errors(), " mounted at "); }));
  fixture.check_equal_trees(fixture.mount_point);
  CHECK(fixture.stat()["store"]["tiers"][1]["state"] == "ok");
  CHECK(fixture.tool({"unmount", "--force", fixture.mount_point.string()}).status == 0);
  CHECK(child->wait().status == 0);
}

TEST_CASE("refresh finds the mount by its config file, as the systemd unit's reload does") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const std::string config =
      fixture.data
          .write("train.toml",
                 fmt::format("source = \"{}\"\nmountpoint = \"{}\"\nram = \"64M\"\n", fixture.source.string(), point))
          .string();
  REQUIRE(fixture.tool({"mount", "--config", config}).status == 0);
  CHECK(contains(fixture.tool({"refresh", "--config", config}).output, "0 files changed"));
  CHECK(fixture.tool({"refresh"}).status == 2);
  CHECK(fixture.tool({"refresh", point, "--config", config}).status == 2);
  CHECK(fixture.tool({"refresh", "--config", fixture.data.write("empty.toml", "ram = \"64M\"\n").string()}).status ==
        2);
}

TEST_CASE("refresh shows names that are new in the source, and hides those that have gone") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M", "--order", "torch-distributed:seed=1"})
              .status == 0);
  CHECK(read_file(fixture.mount_point / "eel/0.jpg").empty());  // the kernel remembers that
  static_cast<void>(fixture.data.write("train/eel/0.jpg", "an eel"));
  static_cast<void>(fixture.data.write("train/cat/00.jpg", "a cat"));
  std::filesystem::remove(fixture.source / "dog/19.jpg");
  const Outcome outcome = fixture.tool({"refresh", point, "--json"});
  CAPTURE(outcome.errors);
  REQUIRE(outcome.status == 0);
  const nlohmann::json found = nlohmann::json::parse(outcome.output);
  CHECK(found == nlohmann::json{{"changed", 0}, {"vanished", 1}, {"appeared", 3}, {"shown", true}});
  CHECK(read_file(fixture.mount_point / "eel/0.jpg") == "an eel");
  CHECK(read_file(fixture.mount_point / "cat/00.jpg") == "a cat");
  CHECK_FALSE(std::filesystem::exists(fixture.mount_point / "dog/19.jpg"));
  const nlohmann::json stat = fixture.stat();
  CHECK(stat["data_set"]["samples"] == 41);
  CHECK(stat["mount"]["order"] == "torch-distributed:seed=1");
  CHECK(stat["mount"]["renewals"] == 1);
  CHECK(stat["mount"]["takeovers"] == 0);
  const Outcome again = fixture.tool({"refresh", point});
  CHECK(again.output == "0 files changed, 0 vanished\n");
}

namespace {

// By inotify, of a worker.
int watched_folders(pid_t pid) {
  int count = 0;
  std::error_code failure;
  for (const fs::directory_entry& each : fs::directory_iterator(fmt::format("/proc/{}/fdinfo", pid), failure)) {
    std::ifstream lines(each.path());
    for (std::string line; std::getline(lines, line);) count += line.starts_with("inotify ") ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("a training that reads along an order goes on with the files that it listed when others appear") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const std::string source = fixture.source.string();
  const std::string order = "torch-distributed:seed=3";
  REQUIRE(fixture.tool({"mount", source, point, "--ram", "64M", "--order", order}).status == 0);
  std::vector<fs::path> files;
  std::istringstream lines(fixture.tool({"order", source, "--order", order}).output);
  for (std::string line; std::getline(lines, line);) files.emplace_back(fixture.mount_point / line);
  REQUIRE(files.size() == 40);
  const auto position = [&] { return fixture.stat()["mount"]["position"].get<int>(); };
  const auto read_some = [&](std::size_t from, std::size_t end) {
    REQUIRE(wait_until([&] { return watched_folders(fixture.stat()["pid"]) == 3; }));  // else opens go unseen
    for (std::size_t i = from; i < end; ++i) static_cast<void>(read_file(files[i]));
    CHECK(wait_until([&] { return position() >= static_cast<int>(end); }));
    CHECK(fixture.stat()["mount"]["strays"] == 0);
  };
  read_some(0, 20);
  static_cast<void>(fixture.data.write("train/cat/00.jpg", "a cat"));
  REQUIRE(fixture.tool({"refresh", point}).status == 0);
  CHECK(fixture.stat()["data_set"]["samples"] == 41);
  CHECK(position() == 20);
  read_some(20, 35);
}

TEST_CASE("a source in which nothing is left is taken for one that is away") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point}).status == 0);
  for (const char* folder : {"cat", "dog"}) std::filesystem::remove_all(fixture.source / folder);
  const Outcome outcome = fixture.tool({"refresh", point});
  CHECK(contains(outcome.output, "0 files changed, 40 vanished"));
  CHECK(contains(outcome.output, "is the source away?"));
  CHECK(fixture.stat()["data_set"]["samples"] == 40);
}

TEST_CASE("a tier leaves free of its file system what free= says, and stat says when it is short") {
  if (::geteuid() != 0) skip("needs root");
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const std::string disk = (fixture.tool.home() / "disk").string();
  fs::create_directory(disk);
  REQUIRE(::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64M") == 0);
  const std::unique_ptr<const std::string, std::function<void(const std::string*)>> mounted(
      &disk, [&fixture, &point](const std::string* at) {
        static_cast<void>(fixture.tool({"unmount", "--force", point}));
        ::umount2(at->c_str(), MNT_DETACH);
      });
  const std::string config =
      fixture.data
          .write("mount.toml", "source = \"" + fixture.source.string() + "\"\nmountpoint = \"" + point +
                                   "\"\nram = \"32M\"\nssd = [\"" + disk + "/tier:48M,free=50%\"]\n")
          .string();
  CHECK(fixture.tool({"config", "check", config}).status == 0);
  const Outcome begun = fixture.tool({"mount", "--config", config});
  CAPTURE(begun.errors);
  REQUIRE(begun.status == 0);
  const auto tier = [&] { return fixture.stat()["store"]["tiers"][1]; };
  CHECK(tier()["keep_free_bytes"] == 32 << 20);
  CHECK(tier()["asked_bytes"] == 48 << 20);
  std::ofstream(disk + "/other") << std::string(40 << 20, 'x');
  CHECK(wait_until([&] { return tier()["budget_bytes"] == 0; }));
  const std::string text = fixture.tool({"stat", point}).output;
  CHECK(contains(text, "0 B of 48.0 MiB may be used now"));
  CHECK(contains(text, "\nssd           0 B        0 B"));  // not "-", which is no limit
  static_cast<void>(read_file(fixture.mount_point / "cat" / "3.jpg"));
  CHECK(wait_until([&] { return tier()["state"] == "short: 32 MiB of its file system are to stay free"; }));
}

TEST_CASE("a worker that cannot make its control socket leaves the mount to the next one") {
  const Fixture fixture;
  const fs::path run = fixture.tool.home() / "run";
  REQUIRE(fixture.tool({"mount", fixture.source.string(), fixture.mount_point.string()}).status == 0);
  const pid_t worker = fixture.stat()["pid"].get<pid_t>();
  fs::permissions(run, fs::perms::all);  // a folder that others may enter is refused
  CHECK(::kill(worker, SIGKILL) == 0);
  const auto first = read_file(fixture.mount_point / "cat" / "3.jpg");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // several workers have failed
  CHECK(read_file(fixture.mount_point / "cat" / "5.jpg") == read_file(fixture.source / "cat" / "5.jpg"));
  CHECK(first == read_file(fixture.source / "cat" / "3.jpg"));
  fs::permissions(run, fs::perms::owner_all);
  CHECK(wait_until([&] { return fixture.tool({"stat", fixture.mount_point.string()}).status == 0; }));
  CHECK(fixture.stat()["pid"].get<pid_t>() != worker);
}

TEST_CASE("a warm on a mount that has failed says so by its status") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const std::string tier = (fixture.tool.home() / "tier").string() + ":64M";
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M", "--ssd", tier, "--source-rate", "4B"})
              .status == 0);
  fs::remove(fixture.source / "cat" / "3.jpg");
  REQUIRE(fixture.tool({"set", point, "source-rate=0"}).status == 0);
  const Outcome outcome = fixture.tool({"warm", point});
  CAPTURE(outcome.output);
  CHECK(outcome.status == 1);
  CHECK(contains(outcome.errors, "1 samples failed"));
}

TEST_CASE("a warm whose process gives way to another one is no success") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const std::string tier = (fixture.tool.home() / "tier").string() + ":64M";
  const std::vector<std::string> slow = {"--source-rate", "4B"};  // or the mount fills its tier by itself
  std::vector<std::string> mount = {"mount", fixture.source.string(), point, "--ram", "64M", "--ssd", tier};
  mount.insert(mount.end(), slow.begin(), slow.end());
  REQUIRE(fixture.tool(mount).status == 0);
  const auto warming = fixture.tool.start({"warm", point, "--rate-limit", "4B"});  // takes longer than any test
  auto client = ControlClient::connect(fs::directory_iterator(fixture.tool.home() / "run")->path());
  REQUIRE(client);
  const auto is_warming = [&] {
    const auto reply = client->ask(format_request("warm-state", json::object()));
    const auto state = reply ? parse_reply(*reply) : tl::unexpected(reply.error());
    return state && !state->value("finished", true);
  };
  REQUIRE(wait_until(is_warming));
  REQUIRE(wait_until([&] { return headrace::test::hears(warming->pid(), SIGINT); }));  // it has its answer, and follows
  CHECK(::kill(fixture.stat()["pid"].get<pid_t>(), SIGKILL) == 0);
  const Outcome outcome = warming->wait();
  CHECK(outcome.status == 1);
  CHECK(contains(outcome.errors, "call again to go on"));
}

TEST_CASE("warm fills the memory of a mount") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M"}).status == 0);
  const Outcome warmed = fixture.tool({"warm", point, "--ram"});
  CAPTURE(warmed.errors);
  CHECK(warmed.status == 0);
  CHECK(contains(warmed.output, "40 samples"));
  CHECK(fixture.stat()["mount"]["held_samples"] == 40);
  CHECK(contains(fixture.tool({"stat", point}).output, "not needed: all samples are held"));
  const Outcome refused = fixture.tool({"warm", point, "--ssd", "/tmp/x:1G"});
  CHECK(refused.status == 2);
  CHECK(contains(refused.errors, "leave --ssd"));
}

TEST_CASE("warm forecasts, fills and checks the disk tier of a mount") {
  const Fixture fixture;
  const std::string point = fixture.mount_point.string();
  const std::string tier = (fixture.tool.home() / "tier").string() + ":64M";
  REQUIRE(fixture.tool({"mount", fixture.source.string(), point, "--ram", "64M", "--ssd", tier}).status == 0);
  const Outcome forecast = fixture.tool({"warm", point, "--dry-run", "--ram"});
  CHECK(contains(forecast.output, "disk tiers: 40 samples"));
  CHECK(contains(forecast.output, "RAM tier: 40 samples"));
  CHECK(contains(forecast.output, "predicted hit ratio 1.00"));
  const std::vector<std::string> part = {"warm",   point, "--order", "torch-distributed:replicas=4,rank=1",
                                         "--seed", "1"};
  const auto with = [](std::vector<std::string> arguments, const std::string& more) {
    arguments.push_back(more);
    return arguments;
  };
  CHECK(fixture.tool(part).status == 0);
  const Outcome held = fixture.tool(with(part, "--check"));
  CHECK(held.status == 0);
  CHECK(contains(held.output, "10 of 10 samples"));
  const Outcome refused = fixture.tool({"warm", point, "--check", "--ram"});
  CHECK(refused.status == 2);
  CHECK(contains(refused.errors, "headrace stat " + point));
  CHECK(contains(fixture.tool({"warm", point}).output, "40 samples"));
  CHECK(fixture.tool({"warm", point, "--check"}).status == 0);
}

}  // namespace running_mount_test
