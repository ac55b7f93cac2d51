// SPDX-License-Identifier: Apache-2.0
// headrace ls: the mounts of this machine, how full they are and how good.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <pthread.h>
#include <pwd.h>
#include <unistd.h>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/daemon/stats_json.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/terminal.h"
#include "headrace/fuse/mounts.h"
#include "headrace/io/printable.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

struct LsArguments {
  bool json = false;
};

struct Fill {
  std::uint64_t used_bytes = 0;
  std::uint64_t budget_bytes = 0;
};

struct Row {
  std::string mount_point;
  std::vector<std::string> also_at;
  std::string source;
  std::string user;
  bool answers = false;  // the rest comes from its daemon
  Fill memory;
  Fill disk;  // of all disk tiers
  std::uint64_t opens = 0;
  std::uint64_t hits = 0;
  std::string state = "ok";
};

// The name of a user, or the number where nobody has it.
std::string user_name(uid_t user) {
  char room[4096];  // for the strings of one entry
  passwd entry{};
  passwd* found = nullptr;
  const bool known = ::getpwuid_r(user, &entry, room, sizeof room, &found) == 0 && found != nullptr;
  return known ? entry.pw_name : std::to_string(user);
}

void add_figures(const json& stat, Row& row) {
  const json& mount = member_of(stat, "mount");
  row.answers = true;
  row.memory = {number_of(mount, "held_bytes") + number_of(mount, "copies_bytes"),
                number_of(mount, "page_cache_budget_bytes") + number_of(mount, "copies_budget_bytes")};
  row.opens = number_of(mount, "opens");
  row.hits = number_of(mount, "hits");
  if (const std::string shortage = text_of(mount, "shortage"); !shortage.empty()) row.state = shortage;
  for (const json& tier : stat["store"]["tiers"]) {
    if (!is_disk_tier(tier)) continue;
    row.disk.used_bytes += number_of(tier, "used_bytes");
    row.disk.budget_bytes += number_of(tier, "budget_bytes");
    const std::string state = text_of(tier, "state");
    if (state != "ok" && state != "full") row.state = text_of(tier, "path") + ": " + state;
  }
}

// 4 s: a daemon that is well answers within milliseconds, and a list is to be there while somebody looks.
constexpr std::chrono::milliseconds kListPatience{4'000};

Row look_at(const fuse::SeenMount& mount) {
  constexpr std::string_view kPrefix = "headrace:";  // findmnt(8) shows the source with it
  const std::string_view source = mount.source_name;
  Row row{.mount_point = mount.path.string(),
          .also_at = {},
          .source = std::string(source.starts_with(kPrefix) ? source.substr(kPrefix.size()) : source),
          .user = mount.user ? user_name(*mount.user) : "?"};
  for (const auto& place : mount.also_at) row.also_at.push_back(place.string());
  const io::Result<json> stat = query_daemon(mount.path, "stat", kListPatience);
  if (stat) {
    add_figures(*stat, row);
  } else if (mount.user && *mount.user != ::geteuid()) {
    row.state = "of another user, who alone can ask it";
  } else if (stat.error().code == io::ErrorCode::kNotFound) {
    row.state = "no daemon serves it; end it with headrace unmount " + row.mount_point;
  } else {
    row.state = stat.error().context;
  }
  return row;
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.0f}%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void print(const std::vector<Row>& rows) {
  if (rows.empty()) return print_line(stdout, "no mount of headrace is to be seen here");
  std::size_t width = 0;
  for (const Row& row : rows) width = std::max(width, io::printable(row.mount_point).size());
  fmt::print("{:<{}}  {:<8} {:>9} {:>5} {:>9} {:>5} {:>5}  {}\n", "mount", width, "user", "memory", "full", "disk",
             "full", "hits", "source");
  for (const Row& row : rows) {
    const std::string memory = row.answers ? format_size(row.memory.used_bytes) : "-";
    const std::string disk = row.disk.budget_bytes > 0 ? format_size(row.disk.used_bytes) : "-";
    fmt::print("{:<{}}  {:<8} {:>9} {:>5} {:>9} {:>5} {:>5}  {}\n", io::printable(row.mount_point), width, row.user,
               memory, percent(row.memory.used_bytes, row.memory.budget_bytes), disk,
               percent(row.disk.used_bytes, row.disk.budget_bytes), percent(row.hits, row.opens),
               io::printable(row.source));
    if (!row.also_at.empty()) print_line(stdout, fmt::format("  also at {}", fmt::join(row.also_at, ", ")), 2);
    if (row.state != "ok") print_line(stdout, "  " + row.state, 2, row.answers ? Tone::kWarning : Tone::kBad);
  }
}

json to_json(const std::vector<Row>& rows) {
  json mounts = json::array();
  for (const Row& row : rows) {
    json mount = {{"mount_point", row.mount_point}, {"also_at", row.also_at},
                  {"source", row.source},           {"user", row.user},
                  {"answers", row.answers},         {"state", row.state}};
    if (row.answers) {
      mount["memory_bytes"] = row.memory.used_bytes;
      mount["memory_budget_bytes"] = row.memory.budget_bytes;
      mount["disk_bytes"] = row.disk.used_bytes;
      mount["disk_budget_bytes"] = row.disk.budget_bytes;
      mount["opens"] = row.opens;
      mount["hits"] = row.hits;
    }
    mounts.push_back(std::move(mount));
  }
  return {{"mounts", std::move(mounts)}};
}

// All are asked at once, so that one that hangs costs the others nothing.
std::vector<Row> look_at_all(const std::vector<fuse::SeenMount>& mounts) {
  std::vector<Row> rows(mounts.size());
  std::vector<std::jthread> asking;  // joined at the end, also where the process may have no more of them
  asking.reserve(mounts.size());
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    asking.emplace_back([&row = rows[i], &mount = mounts[i]] {
      ::pthread_setname_np(::pthread_self(), "hr-ask");
      row = look_at(mount);
    });
  }
  asking.clear();
  return rows;
}

io::Status run_ls(const LsArguments& arguments) {
  const std::vector<Row> rows = look_at_all(fuse::seen_mounts());
  if (arguments.json) {
    print_json(to_json(rows));
  } else {
    print(rows);
  }
  return {};
}

}  // namespace

void add_ls_command(Command& program) {
  std::shared_ptr<LsArguments> arguments;
  Command& command = add_command(
      program, {kMountCommands, "ls", "List the mounts of this machine: whose, how full, how good"}, run_ls, arguments);
  command.add(json_flag(arguments->json));
  command.footer =
      "Memory and disk: what the page cache and the disk tiers hold, and how much of\n"
      "their budgets that is. Hits: opened samples that lay in memory. A daemon tells\n"
      "its figures to its own user alone. Mounts in containers are not seen.\n\n"
      "Example:\n  headrace ls";
}

}  // namespace headrace::cli
