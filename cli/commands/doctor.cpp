// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/doctor.h"

#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/daemon/stats_json.h"
#include "headrace/cli/doctor/doctor.h"
#include "headrace/cli/doctor/memory.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/terminal.h"
#include "headrace/cli/show/wrap.h"
#include "headrace/io/printable.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  std::move(more.begin(), more.end(), std::back_inserter(findings));
}

// A mount has a client already, which knows more than one request would tell.
std::vector<Finding> examine_source_of(const json& stat) {
  const std::string source = text_of(stat, "source");
  const json& store = member_of(stat, "store");
  if (!store.contains("bucket")) return examine_folder("source", source);
  std::vector<Finding> findings = describe_bucket(source, bucket_stats_from_json(store["bucket"]));
  for (const json& tier : member_of(store, "tiers")) {
    const std::string state = text_of(tier, "state");
    if (text_of(tier, "kind") != cache::name_of(cache::TierKind::kSource) || state == "ok") continue;
    findings.front() = {"source " + source, Health::kMissing, state};
  }
  return findings;
}

// A running mount knows its source and its tiers. Every other target is a folder or a bucket.
std::vector<Finding> examine_target(const DoctorArguments& arguments) {
  const std::filesystem::path& target = arguments.target;
  if (cache::is_object_url(target.native())) return examine_bucket(target, make_bucket_options(arguments.cache));
  const io::Result<std::optional<json>> answer = call_daemon_if_mounted(target, "stat");
  if (!answer) return {{"mount", Health::kMissing, answer.error().message()}};
  const std::optional<json>& stat = *answer;
  if (!stat) return examine_folder("source", target);
  const json& mount = (*stat)["mount"];
  std::vector<Finding> findings = {
      examine_budget(number_of(mount, "ram_bytes"), number_of(mount, "budget_bytes"), text_of(mount, "shortage"))};
  for (const json& line : member_of(mount, "fallbacks")) {
    findings.push_back({"mount", Health::kLimit, line.is_string() ? line.get<std::string>() : ""});
  }
  append(findings, examine_source_of(*stat));
  for (const json& tier : (*stat)["store"]["tiers"]) {
    if (is_disk_tier(tier)) append(findings, examine_folder("tier", text_of(tier, "path")));
  }
  append(findings, describe_peers(*stat));
  return findings;
}

Tone tone_of(Health health) {
  return health == Health::kMissing ? Tone::kBad : health == Health::kLimit ? Tone::kWarning : Tone::kPlain;
}

void print(const std::vector<Finding>& findings) {
  const std::size_t columns = terminal_columns(stdout);  // 0 in a pipe: one line each, for grep
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.name.size());
  for (const Finding& finding : findings) {
    const std::string text = wrap(finding.text, {.columns = columns, .indent = 8 + width + 2});
    fmt::print("{}{:<{}}  {}\n", toned(stdout, tone_of(finding.health), fmt::format("{:<8}", name_of(finding.health))),
               io::printable(finding.name), width, text);
    if (!finding.remedy.empty()) fmt::print("{:8}-> {}\n", "", io::printable(finding.remedy));
  }
}

json to_json(const std::vector<Finding>& findings) {
  json list = json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"name", finding.name},
                    {"health", name_of(finding.health)},
                    {"text", finding.text},
                    {"remedy", finding.remedy}});
  }
  return {{"findings", std::move(list)}};
}

}  // namespace

io::Status run_doctor(const DoctorArguments& arguments) {
  std::vector<Finding> findings = examine_machine();
  if (!arguments.target.empty()) append(findings, examine_target(arguments));
  for (const std::filesystem::path& tier : arguments.tiers) append(findings, examine_folder("tier", tier));
  if (arguments.json) {
    print_json(to_json(findings));
  } else {
    print(findings);
  }
  const auto missing = std::count_if(findings.begin(), findings.end(),
                                     [](const Finding& finding) { return finding.health == Health::kMissing; });
  if (missing == 0) return {};
  return io::make_error(io::ErrorCode::kUnsupported,
                        fmt::format("{} of what headrace needs {} missing here; the lines above tell the remedy",
                                    missing, missing == 1 ? "is" : "are"));
}

}  // namespace headrace::cli
