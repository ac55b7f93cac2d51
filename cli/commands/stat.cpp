// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/stat.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/terminal.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

std::uint64_t number(const json& object, const char* name) {
  return object.value(name, std::uint64_t{0});
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  return fmt::format("{:.0f}%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

constexpr std::size_t kFieldColumns = 12;

void print_field(std::string_view name, std::string_view text) {
  print_line(stdout, fmt::format("{:<{}}{}", name, kFieldColumns, text), kFieldColumns);
}

void print_order(const json& stat) {
  const json& mount = stat["mount"];
  const std::string order = mount.value("order", "");
  if (order.empty() && number(mount, "held_samples") == number(stat["data_set"], "samples")) {
    return print_field("order", "not needed: all samples are held");
  }
  if (order.empty()) {
    const bool learns = mount.value("learns_order", false);
    return print_field("order", fmt::format("not known{}; tell it with headrace order set",
                                            learns ? " yet, looked for in the opens" : ""));
  }
  print_field("order", fmt::format("{}, epoch {}, position {}, {} samples ahead", order, number(mount, "epoch"),
                                   number(mount, "position"), number(mount, "ahead_samples")));
  const std::string found_by = mount.value("order_found_by", "");
  if (found_by.empty()) return;
  print_field("", fmt::format("learned: {}; chance of a mistake 1 in 2^{:.0f}", found_by,
                              mount.value("order_confidence_bits", 0.0)));
}

void print_head(const json& stat) {
  const json& data = stat["data_set"];
  print_line(stdout, fmt::format("{} on {}, up {}", stat.value("source", ""), stat.value("mount_point", ""),
                                 format_duration(stat.value("uptime_seconds", 0.0))));
  print_field("data set", fmt::format("{} samples in {} classes, {}", number(data, "samples"), number(data, "classes"),
                                      format_size(number(data, "bytes"))));
  print_order(stat);
}

void print_opens(const json& mount) {
  const std::uint64_t opens = number(mount, "opens");
  if (opens == 0) return print_field("opens", "none yet");
  print_field("opens", fmt::format("{}: {} were in memory, {} came late, {} not where the order expects them", opens,
                                   percent(number(mount, "hits"), opens), percent(number(mount, "late"), opens),
                                   number(mount, "strays")));
}

void print_mount(const json& mount) {
  const std::uint64_t retained_budget = number(mount, "retained_budget_bytes");
  print_field("page cache",
              fmt::format("{} of {} held, {} samples", format_size(number(mount, "held_bytes")),
                          format_size(number(mount, "budget_bytes") - retained_budget), number(mount, "held_samples")));
  if (retained_budget > 0) {
    print_field("memory", fmt::format("{} of {} held by the daemon, as the kernel drops pushed pages; {} samples",
                                      format_size(number(mount, "retained_bytes")), format_size(retained_budget),
                                      number(mount, "retained_samples")));
  }
  print_opens(mount);
  print_field("requests", fmt::format("{} reached the daemon, {} read; readers waited {:.1f} s for that",
                                      number(mount, "request_total"), format_size(number(mount, "read_bytes")),
                                      mount.value("read_wait_seconds", 0.0)));
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
    if (kind == "ssd" || kind == "hdd")
      print_line(stdout, fmt::format("{:<7}{}", kind, tier.value("placement", "")), 7);
  }
  const json reads = store.value("epoch_reads", json());
  if (!reads.is_object()) return;
  fmt::print("epoch {}: {} reads of the source so far; a whole epoch needs {} at least\n", number(reads, "epoch"),
             format_count(number(reads, "source_reads")), format_count(number(reads, "minimum_source_reads")));
}

void print_note(const std::string& note) {
  print_line(stdout, "note: " + note, 6);
}

// What did not go as wished: fall-backs and failures, nothing when there are none.
void print_notes(const json& stat) {
  const json& engine = stat["store"]["engine"];
  if (const std::string reason = engine.value("fallback_reason", ""); !reason.empty()) {
    print_note(fmt::format("engine {}: {}", engine.value("name", ""), reason));
  }
  if (const json& tiers = stat["store"]["tiers"]; !tiers.empty()) {
    if (const std::string how = tiers.back().value("placement", ""); !how.empty()) print_note("source: " + how);
  }
  for (const json& fallback : stat["mount"]["fallbacks"]) print_note(fallback.get<std::string>());
  const std::uint64_t failures = number(stat["mount"], "read_failures") + number(stat["mount"], "push_failures");
  if (failures > 0) print_note(fmt::format("{} reads failed; the log says which", failures));
}

}  // namespace

io::Status run_stat(const StatArguments& arguments) {
  if (arguments.watch) return run_watch(arguments.mount_point);
  HEADRACE_TRY(stat, call_daemon(arguments.mount_point, "stat", json::object()));
  if (arguments.json) {
    fmt::print("{}\n", to_text(stat));
    return {};
  }
  print_head(stat);
  print_mount(stat["mount"]);
  print_tiers(stat["store"]["tiers"]);
  print_placement(stat["store"]);
  print_notes(stat);
  return {};
}

}  // namespace headrace::cli
