// SPDX-License-Identifier: Apache-2.0
// What the program says about itself: manual page, completions; and the mount(8) helper that calls it.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"

namespace reference_test {

using headrace::test::contains;
using headrace::test::read_file;
using headrace::test::skip;
using headrace::test::TempDir;
using headrace::test::Tool;

namespace {

// What a shell command writes, errors included; its exit status is checked.
std::string shell(const std::string& command) {
  const TempDir folder;
  const std::string file = (folder.path() / "out").string();
  const int status = std::system(("(" + command + ") >" + file + " 2>&1").c_str());
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  CAPTURE(command);
  CAPTURE(text.str());
  CHECK(status == 0);
  return text.str();
}

bool has_program(const char* name) {
  return std::system(("command -v " + std::string(name) + " >/dev/null").c_str()) == 0;
}

// A stand-in for headrace that prints its arguments, one a line.
std::string make_echo(const TempDir& folder) {
  const std::string file = folder.write("echo.sh", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").string();
  ::chmod(file.c_str(), 0755);
  return file;
}

const std::string kHelper = HEADRACE_REFERENCE "/mount.headrace";

}  // namespace

TEST_CASE("the manual page covers every command and satisfies groff") {
  const Tool tool;
  const TempDir folder;
  const std::string page = tool({"manual"}).output;
  for (const char* name : {"mount", "unmount", "stat", "warm", "read", "order", "order set", "tier rm", "doctor"}) {
    CAPTURE(name);
    CHECK(contains(page, std::string(".SS \"headrace ") + name));
  }
  if (!has_program("groff")) skip("needs groff");
  const std::string file = folder.write("headrace.1", page).string();
  CHECK(shell("groff -man -Tutf8 -ww -z " + file).empty());
}

TEST_CASE("headrace.toml(5) and mount.headrace(8) tell every option that may stand there, and satisfy groff") {
  const Tool tool;
  const TempDir folder;
  const std::string config = tool({"manual", "headrace.toml"}).output;
  for (const char* name : {"source", "mountpoint", "ram", "ssd", "order", "allow\\-other", "metrics"}) {
    CAPTURE(name);
    CHECK(contains(config, std::string(".TP\n\\fB") + name + " = "));
  }
  CHECK_FALSE(contains(config, "\\fBconfig"));
  const std::string helper = tool({"manual", "mount.headrace"}).output;
  CHECK(contains(helper, "\\fBram=SIZE\\fR"));
  CHECK_FALSE(contains(helper, "foreground"));
  CHECK(tool({"manual", "other"}).status == 2);
  if (!has_program("groff")) skip("needs groff");
  for (const std::string& page : {config, helper}) {
    CHECK(shell("groff -man -Tutf8 -ww -z " + folder.write("page", page).string()).empty());
  }
}

TEST_CASE("fish completes commands, options, choices and commands below commands") {
  const std::string script = Tool()({"completion", "fish"}).output;
  CHECK(contains(script, "-a mount -d "));
  if (!has_program("fish")) skip("needs fish");
  const TempDir folder;
  const std::string file = folder.write("headrace.fish", script).string();
  const auto complete = [&](const std::string& line) {
    return shell("HOME=" + folder.path().string() + " fish --no-config -c 'source " + file + "; complete -C \"" + line +
                 "\"'");
  };
  CHECK(contains(complete("headrace mou"), "mount\t"));
  CHECK(contains(complete("headrace mount --ove"), "--overlay\t"));
  CHECK(contains(complete("headrace mount --listing t"), "timm"));
  CHECK(contains(complete("headrace order s"), "set\t"));
  CHECK(contains(complete("headrace order set --ep"), "--epoch\t"));
  CHECK_FALSE(contains(complete("headrace stat --ove"), "--overlay"));
  CHECK_FALSE(contains(complete("headrace order set --li"), "--list"));  // of order alone
}

TEST_CASE("bash completes commands, options, choices and commands below commands") {
  if (!has_program("bash")) skip("needs bash");
  const TempDir folder;
  const std::string script = folder.write("headrace.bash", Tool()({"completion", "bash"}).output).string();
  const auto complete = [&](const std::string& words) {
    return shell("bash -c '. " + script + "; COMP_WORDS=(" + words + "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); " +
                 "_headrace; printf \"%s \" \"${COMPREPLY[@]}\"'");
  };
  CHECK(contains(complete("headrace mou"), "mount"));
  CHECK(contains(complete("headrace mount --ove"), "--overlay"));
  CHECK(contains(complete("headrace mount --listing t"), "timm"));
  CHECK(contains(complete("headrace order s"), "set"));
  CHECK(contains(complete("headrace order set --ep"), "--epoch"));
  CHECK_FALSE(contains(complete("headrace stat --ove"), "--overlay"));
  const std::string orders = complete(HEADRACE_BINARY " mount --order torch-");
  CHECK(contains(orders, "torch-distributed"));
  CHECK(contains(orders, "torch-random"));
  CHECK_FALSE(contains(orders, "example"));
}

TEST_CASE("bash completes the mount points that are there") {
  if (!has_program("bash")) skip("needs bash");
  const TempDir folder;
  const std::string script = folder.write("headrace.bash", Tool()({"completion", "bash"}).output).string();
  const auto findmnt = folder.write("bin/findmnt", "#!/bin/sh\nprintf '/mnt/a\\n/mnt/b\\n'\n");
  ::chmod(findmnt.c_str(), 0755);
  const auto complete = [&](const std::string& command) {
    return shell("bash -c '. " + script + "; PATH=" + findmnt.parent_path().string() + ":$PATH; COMP_WORDS=(headrace " +
                 command + " /m); COMP_CWORD=2; _headrace; printf \"%s \" \"${COMPREPLY[@]}\"'");
  };
  CHECK(complete("unmount") == "/mnt/a /mnt/b ");
  CHECK(complete("stat") == "/mnt/a /mnt/b ");
  CHECK_FALSE(contains(complete("mount"), "/mnt/a"));  // it makes a new one
}

TEST_CASE("the zsh completion is a script that zsh can read") {
  const std::string script = Tool()({"completion", "zsh"}).output;
  CHECK(script.rfind("#compdef headrace", 0) == 0);
  CHECK(contains(script, "'mount:"));
  if (!has_program("zsh")) skip("needs zsh");
  const TempDir folder;
  shell("zsh -n " + folder.write("_headrace", script).string());
}

TEST_CASE("mount -t headrace turns its options into those of headrace mount") {
  const TempDir folder;
  const std::string call = "HEADRACE=" + make_echo(folder) + " sh " + kHelper;
  CHECK(
      shell(call + " '/data/my photos' /mnt -o rw,ram=16G,ssd=/nvme/a:200G,allow_other,_netdev,x-systemd.automount") ==
      "mount\n/data/my photos\n/mnt\n--ram\n16G\n--ssd\n/nvme/a:200G\n--allow-other\n");
  CHECK(shell(call + " /d /m -o 'order=torch-distributed:seed=0;replicas=8'") ==
        "mount\n/d\n/m\n--order\ntorch-distributed:seed=0,replicas=8\n");
  CHECK(shell(call + " /d /m -o 'ssd=/nvme/a:200G;free=10%,ram=1G'") ==
        "mount\n/d\n/m\n--ssd\n/nvme/a:200G,free=10%\n--ram\n1G\n");
  CHECK(contains(shell("! " + call + " /d /m -o ssd=/nvme/a:200G,free=10%"), "write a semicolon before it"));
  CHECK(shell(call + " /d /m") == "mount\n/d\n/m\n");
  CHECK(shell(call + " /d /m -f -o ram=1G").empty());
  CHECK(shell(call + " /d /m -s -o colour=red") == "mount\n/d\n/m\n");
  CHECK(contains(shell("! " + call + " /d /m -o colour=red"), "unknown option 'colour=red'"));
  CHECK(contains(shell("! " + call + " /d /m -o remount"), "unmount it"));
  CHECK(shell(call + " /d /m -o remount,rw,ssd=/x:1G,ram=8G") == "set\n/m\nram=8G\n");
  CHECK(contains(shell("! " + call), "usage"));
}

TEST_CASE("mount -t headrace takes every option of headrace mount") {
  const TempDir folder;
  const std::string call = "HEADRACE=" + make_echo(folder) + " sh " + kHelper + " /d /m -o ";
  std::istringstream help(Tool()({"mount", "--help"}).output);
  int options = 0;
  for (std::string line; std::getline(help, line);) {
    const std::size_t name = line.find("--");
    if (line.rfind("  -", 0) != 0 || name == std::string::npos) continue;
    std::istringstream words(line.substr(name + 2));
    std::string option;
    words >> option;
    if (option == "help" || option == "foreground") continue;  // mount(8) waits for readiness, not for the end
    CAPTURE(option);
    const bool is_flag = option == "allow-other" || option == "overlay" || option == "accept-unreadable" ||
                         option == "no-sign-request" || option == "requester-pays";
    CHECK(contains(shell(call + option + (is_flag ? "" : "=1")), "--" + option));
    ++options;
  }
  CHECK(options >= 12);
}

TEST_CASE("mount(8) mounts a line of fstab, with all that may stand in one") {
  if (::geteuid() != 0 || ::access("/dev/fuse", R_OK | W_OK) != 0) skip("needs root and /dev/fuse");
  if (std::system("unshare --mount true 2>/dev/null") != 0) skip("needs a mount namespace of its own");
  const Tool tool;
  const TempDir folder;
  const std::string here = folder.path().string();
  static_cast<void>(folder.write("data/cat/1.jpg", "one"));
  static_cast<void>(folder.write("mnt/empty", ""));
  std::filesystem::remove(folder.path() / "mnt/empty");
  const std::string run = tool.home().string();
  const std::string helper = "#!/bin/sh\nexport HEADRACE=" HEADRACE_BINARY " HEADRACE_RUNTIME_DIR=" + run +
                             "/run HEADRACE_CACHE_DIR=" + run + "/cache HEADRACE_LOG_DIR=" + run + "/log\nexec sh " +
                             kHelper + " \"$@\"\n";
  ::chmod(folder.write("sbin/mount.headrace", helper).c_str(), 0755);
  static_cast<void>(folder.write("fstab", here + "/data " + here +
                                              "/mnt headrace ram=64M,order=sequential,ro,noauto,nofail,_netdev,user,"
                                              "noatime,x-systemd.automount 0 0\n"));
  // mount(8) looks for its helpers in /sbin alone: ours is laid over that, for this command only.
  const std::string script = "mount -t overlay none -o lowerdir=" + here + "/sbin:/usr/sbin /usr/sbin; mount -T " +
                             here + "/fstab " + here + "/mnt; cat " + here +
                             "/mnt/cat/1.jpg; HEADRACE_RUNTIME_DIR=" + run +
                             "/run " HEADRACE_BINARY " unmount --force " + here + "/mnt";
  CHECK(shell("unshare --mount sh -ec '" + script + "'") == "one");
}

TEST_CASE("the systemd units are good, reload by a refresh, and leave the mount where all see it") {
  for (const char* name : {"headrace@", "headrace-user@", "headrace-metrics"}) {
    CAPTURE(name);
    const std::string text = read_file(std::string(HEADRACE_REFERENCE "/") + name + ".service");
    CHECK(contains(text, "\nExecReload=") == (std::string(name) != "headrace-metrics"));
    // What gives a service a mount namespace of its own: the mount would be seen by nobody else.
    for (const char* hides : {"ProtectSystem", "ProtectHome", "ProtectKernel", "ProtectControlGroups", "ProtectProc",
                              "ProcSubset", "Private", "ReadWritePaths", "ReadOnlyPaths", "InaccessiblePaths",
                              "BindPaths", "TemporaryFileSystem", "MountFlags", "RootDirectory"}) {
      CHECK_FALSE(contains(text, std::string("\n") + hides));
    }
    if (!has_program("systemd-analyze")) skip("needs systemd");
    const TempDir folder;
    const std::string unit = (folder.path() / "headrace@x.service").string();
    // The program is not installed while testing; any that exists will do for the check.
    shell("sed 's|^\\(Exec[A-Za-z]*\\)=[^ ]*|\\1=/bin/true|; /^Documentation/d' '" HEADRACE_REFERENCE "/" +
          std::string(name) + ".service' > " + unit);
    CHECK(shell("systemd-analyze verify --man=no " + unit + " 2>&1 | grep headrace || true").empty());
  }
}

TEST_CASE("the dashboard's panels have what Grafana needs and do not overlap") {
  std::ostringstream text;
  text << std::ifstream(HEADRACE_SOURCE "/cli/monitoring/dashboard.json").rdbuf();
  const nlohmann::json panels = nlohmann::json::parse(text.str())["panels"];
  std::set<int> numbers;
  std::set<std::pair<int, int>> cells;
  for (const auto& panel : panels) {
    CAPTURE(panel.value("title", ""));
    CHECK_FALSE(panel["type"].get<std::string>().empty());
    CHECK_FALSE(panel["title"].get<std::string>().empty());
    CHECK(numbers.insert(panel["id"].get<int>()).second);
    const auto& place = panel["gridPos"];
    const int left = place["x"];
    const int top = place["y"];
    CHECK(left + place["w"].get<int>() <= 24);  // Grafana's columns
    for (int x = left; x < left + place["w"].get<int>(); ++x) {
      for (int y = top; y < top + place["h"].get<int>(); ++y) CHECK(cells.emplace(x, y).second);
    }
    std::set<std::string> letters;
    for (const auto& target : panel["targets"]) CHECK(letters.insert(target["refId"].get<std::string>()).second);
  }
}

// The metrics that an expression asks for.
std::vector<std::string> metrics_in(const std::string& expression) {
  constexpr std::string_view kPrefix = "headrace_";
  std::vector<std::string> names;
  for (std::size_t at = expression.find(kPrefix); at != std::string::npos; at = expression.find(kPrefix, at + 1)) {
    const std::size_t end = expression.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at);
    names.push_back(expression.substr(at, end == std::string::npos ? end : end - at));
    constexpr std::string_view kBucket = "_bucket";  // of a histogram
    if (names.back().ends_with(kBucket)) names.back().resize(names.back().size() - kBucket.size());
  }
  return names;
}

TEST_CASE("each alert has a severity and a summary, and asks only for metrics that exist") {
  const std::string metrics = read_file(HEADRACE_SOURCE "/cli/daemon/metrics_prometheus.cpp");
  std::istringstream rules(read_file(HEADRACE_SOURCE "/cli/monitoring/alerts.yml"));
  int alerts = 0;
  int severities = 0;
  int summaries = 0;
  for (std::string line; std::getline(rules, line);) {
    CAPTURE(line);
    if (contains(line, "- alert: ")) ++alerts;
    if (contains(line, "summary: ")) ++summaries;
    const std::size_t severity = line.find("severity: ");
    if (severity != std::string::npos) {
      const std::string word = line.substr(severity + 10);
      CHECK((word == "info" || word == "warning" || word == "critical"));
      ++severities;
    }
    if (!contains(line, "expr: ")) continue;
    for (const std::string& name : metrics_in(line)) CHECK(contains(metrics, "\"" + name + "\""));
  }
  CHECK(alerts >= 9);
  CHECK(severities == alerts);
  CHECK(summaries == alerts);
}

TEST_CASE("the dashboard asks only for metrics that exist") {
  std::ostringstream text;
  text << std::ifstream(HEADRACE_SOURCE "/cli/monitoring/dashboard.json").rdbuf();
  const nlohmann::json dashboard = nlohmann::json::parse(text.str());
  std::ostringstream metrics;
  metrics << std::ifstream(HEADRACE_SOURCE "/cli/daemon/metrics_prometheus.cpp").rdbuf();
  REQUIRE(dashboard["panels"].size() >= 6);
  CHECK(dashboard["schemaVersion"].get<int>() >= 36);  // Grafana 9
  CHECK_FALSE(dashboard["title"].get<std::string>().empty());
  for (const auto& panel : dashboard["panels"]) {
    for (const auto& target : panel["targets"]) {
      const std::string expression = target["expr"];
      CAPTURE(expression);
      for (const std::string& name : metrics_in(expression)) CHECK(contains(metrics.str(), "\"" + name + "\""));
      // A fixed range shows nothing where the scrapes are further apart.
      CHECK((!contains(expression, "rate(") || contains(expression, "[$__rate_interval]")));
    }
  }
}

}  // namespace reference_test
