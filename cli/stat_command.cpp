// SPDX-License-Identifier: Apache-2.0
// headrace stat: what a mount holds, has served and is doing.
#include <algorithm>
#include <string>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/commands.h"
#include "headrace/cli/protocol.h"
#include "headrace/cli/size.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

std::uint64_t number(const json& object, const char* name) {
  return object.value(name, std::uint64_t{0});
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.0f}%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void print_head(const json& stat) {
  const json& data = stat["data_set"];
  const json& mount = stat["mount"];
  fmt::print("{} on {}, up {}\n", stat.value("source", ""), stat.value("mount_point", ""),
             format_duration(stat.value("uptime_seconds", 0.0)));
  fmt::print("data set  {} samples in {} classes, {}\n", number(data, "samples"), number(data, "classes"),
             format_size(number(data, "bytes")));
  const std::string order = mount.value("order", "");
  if (order.empty() && number(mount, "held_samples") == number(data, "samples")) {
    fmt::print("order     not needed: all samples are held\n");
  } else if (order.empty()) {
    const bool learns = mount.value("learns_order", false);
    fmt::print("order     not known{}; tell it with headrace order set\n",
               learns ? " yet, looked for in the opens" : "");
  } else {
    fmt::print("order     {}, epoch {}, position {}, {} samples ahead\n", order, number(mount, "epoch"),
               number(mount, "position"), number(mount, "ahead_samples"));
    const std::string found_by = mount.value("order_found_by", "");
    if (!found_by.empty()) fmt::print("          learned: {}\n", found_by);
  }
}

void print_mount(const json& mount) {
  const std::uint64_t opens = number(mount, "opens");
  const std::uint64_t retained_budget = number(mount, "retained_budget_bytes");
  fmt::print("page cache {} of {} held, {} samples\n", format_size(number(mount, "held_bytes")),
             format_size(number(mount, "budget_bytes") - retained_budget), number(mount, "held_samples"));
  if (retained_budget > 0) {
    fmt::print("memory    {} of {} held by the daemon, as the kernel drops pushed pages; {} samples\n",
               format_size(number(mount, "retained_bytes")), format_size(retained_budget),
               number(mount, "retained_samples"));
  }
  fmt::print("opens     {}: {} were there, {} came late, {} unexpected\n", opens, percent(number(mount, "hits"), opens),
             percent(number(mount, "late"), opens), number(mount, "strays"));
  fmt::print("requests  {} reached the daemon, {} read\n", number(mount, "request_total"),
             format_size(number(mount, "read_bytes")));
}

void print_tiers(const json& tiers) {
  fmt::print("\n{:<7}{:>10} {:>10} {:>8} {:>8} {:>10} {:>7}  {}\n", "tier", "used", "budget", "samples", "hits",
             "served", "errors", "state");
  for (const json& tier : tiers) {
    const std::uint64_t budget = number(tier, "budget_bytes");
    fmt::print("{:<7}{:>10} {:>10} {:>8} {:>8} {:>10} {:>7}  {}\n", tier.value("kind", ""),
               format_size(number(tier, "used_bytes")), budget > 0 ? format_size(budget) : "-",
               format_count(number(tier, "samples")), format_count(number(tier, "hits")),
               format_size(number(tier, "hit_bytes")), format_count(number(tier, "errors") + number(tier, "corrupt")),
               tier.value("state", ""));
  }
}

// How the disk tiers choose what to hold, and what that comes to.
void print_placement(const json& store) {
  for (const json& tier : store["tiers"]) {
    const std::string kind = tier.value("kind", "");
    if (kind == "ssd" || kind == "hdd") fmt::print("{:<7}{}\n", kind, tier.value("placement", ""));
  }
  const json reads = store.value("epoch_reads", json());
  if (!reads.is_object()) return;
  fmt::print("epoch {}: {} reads of the source so far; a whole epoch needs {} at least\n", number(reads, "epoch"),
             format_count(number(reads, "source_reads")), format_count(number(reads, "minimum_source_reads")));
}

// What did not go as wished: fall-backs and failures, nothing when there are none.
void print_notes(const json& stat) {
  const json& engine = stat["store"]["engine"];
  if (const std::string reason = engine.value("fallback_reason", ""); !reason.empty()) {
    fmt::print("note: engine {}: {}\n", engine.value("name", ""), reason);
  }
  if (const json& tiers = stat["store"]["tiers"]; !tiers.empty()) {
    if (const std::string how = tiers.back().value("placement", ""); !how.empty())
      fmt::print("note: source: {}\n", how);
  }
  for (const json& fallback : stat["mount"]["fallbacks"]) fmt::print("note: {}\n", fallback.get<std::string>());
  const std::uint64_t failures = number(stat["mount"], "read_failures") + number(stat["mount"], "push_failures");
  if (failures > 0) fmt::print("note: {} reads failed; the log says which\n", failures);
}

}  // namespace

io::Status run_stat(const StatArguments& arguments) {
  if (arguments.watch) return run_watch(arguments.mount_point);
  const io::Result<json> stat = call_daemon(arguments.mount_point, "stat", json::object());
  if (!stat) return tl::unexpected(stat.error());
  if (arguments.json) {
    fmt::print("{}\n", to_text(*stat));
    return {};
  }
  print_head(*stat);
  print_mount((*stat)["mount"]);
  print_tiers((*stat)["store"]["tiers"]);
  print_placement((*stat)["store"]);
  print_notes(*stat);
  return {};
}

}  // namespace headrace::cli
