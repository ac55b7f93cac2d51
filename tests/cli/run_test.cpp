// SPDX-License-Identifier: Apache-2.0
// headrace run: a command that reads a data set through a mount of its own.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"

namespace run_test {
namespace {

using headrace::test::contains;
using headrace::test::has_ended;
using headrace::test::Outcome;
using headrace::test::read_file;
using headrace::test::skip;
using headrace::test::TempDir;
using headrace::test::Tool;
using headrace::test::wait_until;

namespace fs = std::filesystem;

struct Run {
  Run() {
    if (::access("/dev/fuse", R_OK | W_OK) != 0) skip("needs /dev/fuse");
    if (tool.start_shell("unshare --mount true || unshare --map-root-user --mount true")->wait().status != 0) {
      skip("needs root or user namespaces");
    }
    for (const char* name : {"cat/0.jpg", "cat/1.jpg", "dog/0.jpg"}) {
      static_cast<void>(data.write(std::string("train/") + name, std::string("sample ") + name + "\n"));
    }
  }
  [[nodiscard]] std::vector<std::string> words(const std::string& script) const {
    return {"run", "--ram", "64M", source, "--", "sh", "-c", script};
  }
  [[nodiscard]] Outcome operator()(const std::string& script) const { return tool(words(script)); }
  // Whatever headrace has mounted for this data set, in any namespace that this process can look into.
  [[nodiscard]] bool has_daemon() const {
    for (const fs::directory_entry& process : fs::directory_iterator("/proc")) {
      if (contains(read_file(process.path() / "cmdline"), source) && !has_ended(pid_of(process.path()))) return true;
    }
    return false;
  }
  static pid_t pid_of(const fs::path& process) {
    return static_cast<pid_t>(std::strtol(process.filename().c_str(), nullptr, 10));
  }

  Tool tool;
  TempDir data;
  std::string source = (data.path() / "train").string();
};

}  // namespace

TEST_CASE("run shows a data set at its own path to its command alone, and leaves nothing behind") {
  const Run run;
  const Outcome outcome = run(
      fmt::format("cat {0}/cat/*.jpg {0}/dog/0.jpg; grep -c ' {0} .*fuse.headrace' /proc/self/mountinfo", run.source));
  CAPTURE(outcome.errors);
  CHECK(outcome.status == 0);
  CHECK(outcome.output == "sample cat/0.jpg\nsample cat/1.jpg\nsample dog/0.jpg\n1\n");
  CHECK(contains(outcome.errors, run.source + " to this command alone, by a mount of its own"));
  CHECK(contains(outcome.errors, " samples were opened"));
  CHECK_FALSE(contains(read_file("/proc/self/mountinfo"), run.source));
  CHECK_FALSE(run.has_daemon());
}

TEST_CASE("run ends as its command does") {
  const Run run;
  CHECK(run("exit 7").status == 7);
  CHECK(run("kill -TERM $$").status == 128 + SIGTERM);
  CHECK(run("cat").status == 0);  // its input is that of run
  CHECK_FALSE(run.has_daemon());
}

TEST_CASE("run refuses what it cannot run before anything is mounted") {
  const Run run;
  const auto refused = [&](const std::string& command) {
    Outcome outcome = run.tool({"run", run.source, "--", command});
    CHECK(std::count(outcome.errors.begin(), outcome.errors.end(), '\n') == 1);
    return outcome;
  };
  const Outcome missing = refused("no-such-command");
  CHECK(missing.status == 127);
  CHECK(missing.errors == "headrace: there is no command no-such-command\n");
  CHECK(refused(run.source + "/cat/0.jpg").status == 126);
  CHECK(refused(run.source).status == 126);
  CHECK(run.tool({"run", run.source}).status == 2);
  CHECK(contains(run.tool({"run", "s3://bucket/train", "--", "true"}).errors, "give it one with --at PATH"));
}

TEST_CASE("run needs a source, unless the command may run without headrace") {
  const Run run;
  const std::string nowhere = run.data.path() / "nowhere";
  const Outcome refused = run.tool({"run", nowhere, "--", "echo", "ran"});
  CHECK(refused.status == 1);
  CHECK(refused.output.empty());
  CHECK(contains(refused.errors, nowhere));
  const Outcome bare = run.tool({"run", "--or-bare", nowhere, "--", "sh", "-c", "echo ran; exit 3"});
  CHECK(bare.status == 3);
  CHECK(bare.output == "ran\n");
  CHECK(contains(bare.errors, "the command runs without headrace: "));
}

TEST_CASE("run shows a data set elsewhere, and a command that works in it works in the mount") {
  const Run run;
  const fs::path elsewhere = run.data.path() / "elsewhere";
  fs::create_directory(elsewhere);
  const Outcome at = run.tool({"run", "--ram", "64M", run.source, "--at", elsewhere.string(), "--", "cat",
                               (elsewhere / "dog" / "0.jpg").string()});
  CHECK(at.output == "sample dog/0.jpg\n");
  CHECK(fs::is_empty(elsewhere));

  const auto inside =
      run.tool.start_shell(fmt::format("cd {}/cat && {} run --ram 64M {} -- sh -c 'stat -f -c %t . && cat 0.jpg'",
                                       run.source, HEADRACE_BINARY, run.source));
  const Outcome outcome = inside->wait();
  CAPTURE(outcome.errors);
  CHECK(outcome.output == "65735546\nsample cat/0.jpg\n");  // FUSE_SUPER_MAGIC
}

TEST_CASE("run passes signals on to its command") {
  const Run run;
  const auto child =
      run.tool.start(run.words("trap 'echo told; exit 5' USR1; echo begun; while :; do sleep 0.1; done"));
  REQUIRE(wait_until([&] { return contains(child->output(), "begun"); }));
  child->signal(SIGUSR1);
  const Outcome outcome = child->wait();
  CHECK(outcome.status == 5);
  CHECK(contains(outcome.output, "told"));
}

TEST_CASE("a command whose run is killed goes on with the source, and nothing is left behind") {
  const Run run;
  const fs::path go_on = run.data.path() / "go on";
  const fs::path read = run.data.path() / "read";
  const auto child =
      run.tool.start(run.words(fmt::format("exec 3<{0}/cat/0.jpg; echo begun; until test -e '{1}'; do sleep 0.1; done; "
                                           "cat <&3 >{2}.new; "
                                           "until test $(stat -f -c %t {0}) != 65735546; do sleep 0.1; done; "
                                           "cat {0}/dog/0.jpg >>{2}.new; mv {2}.new {2}",
                                           run.source, go_on.string(), read.string())));
  REQUIRE(wait_until([&] { return contains(child->output(), "begun"); }));
  child->signal(SIGKILL);
  CHECK(child->wait().status == 128 + SIGKILL);
  static_cast<void>(run.data.write("go on", ""));
  CHECK(wait_until([&] { return fs::exists(read); }));
  CHECK(read_file(read) == "sample cat/0.jpg\nsample dog/0.jpg\n");
  CHECK(wait_until([&] { return !run.has_daemon(); }));
}

TEST_CASE("two runs of one data set at a time do not disturb each other") {
  const Run run;
  const auto first = run.tool.start(run.words("echo begun; read line; cat " + run.source + "/cat/1.jpg"));
  const auto other = run.tool.start(run.words("echo begun; sleep 60"));
  REQUIRE(wait_until([&] { return contains(first->output(), "begun") || !first->errors().empty(); }));
  REQUIRE(wait_until([&] { return contains(other->output(), "begun"); }));
  CHECK(run("cat " + run.source + "/dog/0.jpg").output == "sample dog/0.jpg\n");
  CHECK(contains(first->wait().output, "sample cat/1.jpg"));
  other->signal(SIGTERM);
  CHECK(other->wait().status == 128 + SIGTERM);
  CHECK(wait_until([&] { return !run.has_daemon(); }));
}

TEST_CASE("a mount of another data set where one is to be shown is not taken for it") {
  const Run run;
  const fs::path other = run.data.path() / "other";
  const fs::path elsewhere = run.data.path() / "elsewhere";
  fs::create_directory(elsewhere);
  static_cast<void>(run.data.write("other/cat/0.jpg", "another\n"));
  REQUIRE(run.tool({"mount", other.string(), elsewhere.string(), "--ram", "64M"}).status == 0);
  const Outcome outcome =
      run.tool({"run", run.source, "--at", elsewhere.string(), "--", "cat", (elsewhere / "cat" / "0.jpg").string()});
  CHECK(outcome.output != "another\n");
  CHECK(run.tool({"unmount", "--force", elsewhere.string()}).status == 0);
}

TEST_CASE("run reads through a mount that is there already") {
  const Run run;
  REQUIRE(run.tool({"mount", run.source, run.source, "--ram", "64M"}).status == 0);
  const Outcome outcome = run("cat " + run.source + "/cat/0.jpg");
  CHECK(outcome.output == "sample cat/0.jpg\n");
  CHECK(contains(outcome.errors, "is mounted already; the command reads through that"));
  CHECK(run.tool({"unmount", "--force", run.source}).status == 0);
}

TEST_CASE("run needs no root where a user may make namespaces and open /dev/fuse") {
  const Run run;
  if (::geteuid() != 0) skip("needs root to be another user");
#ifdef __SANITIZE_THREAD__
  skip("a process with threads makes no user namespace, and the thread sanitizer has one of its own");
#endif
  fs::permissions(run.data.path(), fs::perms(0755));
  const fs::path result = run.data.path() / "result";
  fs::create_directory(result);
  fs::permissions(result, fs::perms(0777));
  const std::string as_user = fmt::format(
      "rm -f {0}/fuse && mknod {0}/fuse c 10 229 && chmod 666 {0}/fuse && mount --bind {0}/fuse /dev/fuse && "
      "exec setpriv --reuid 12345 --regid 12345 --clear-groups env HEADRACE_RUNTIME_DIR={0}/result/run "
      "HEADRACE_CACHE_DIR={0}/result/cache HEADRACE_LOG_DIR={0}/result/log HOME={0}/result ",
      run.data.path().string());
  const auto call = [&](const std::string& words) {
    return run.tool.start_shell("unshare --mount sh -c '" + as_user + words + "'")->wait();
  };
  if (call("unshare --map-root-user true").status != 0) skip("needs user namespaces for everybody");
  if (call(std::string(HEADRACE_BINARY) + " --version").status != 0) skip("needs a build that everybody may read");
  const Outcome outcome = call(fmt::format("{} run --ram 64M {} -- sh -c \"cat {}/dog/0.jpg && id -u\"",
                                           HEADRACE_BINARY, run.source, run.source));
  CAPTURE(outcome.errors);
  CHECK(outcome.status == 0);
  CHECK(outcome.output == "sample dog/0.jpg\n12345\n");
  CHECK(contains(outcome.errors, "by a mount of its own in a user namespace"));
  CHECK_FALSE(run.has_daemon());
}

}  // namespace run_test
