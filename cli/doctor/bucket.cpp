// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include <fmt/core.h>

#include "headrace/cli/doctor/doctor.h"

namespace headrace::cli {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A signature that is older or younger than 15 minutes is refused. A tenth of that is no reason to worry.
constexpr long kClockOffMax = 90;

Finding examine_clock(const std::string& name, std::chrono::seconds behind) {
  const long off = behind.count();
  if (std::labs(off) <= kClockOffMax) return {.name = name, .health = Health::kGood, .text = "as the store's"};
  return {.name = name,
          .health = Health::kLimit,
          .text = fmt::format("{} s {} the store's: signatures are refused from 900 s on", std::labs(off),
                              off > 0 ? "behind" : "ahead of"),
          .remedy = "timedatectl set-ntp true"};
}

}  // namespace

std::vector<Finding> describe_bucket(const std::string& url, const cache::ObjectStoreStats& stats) {
  const std::string name = "source " + url;
  Finding reached{.name = name,
                  .health = Health::kGood,
                  .text = fmt::format("reached, keys from: {}{}", stats.credentials,
                                      stats.region.empty() ? "" : ", region " + stats.region)};
  if (stats.latency_p50.count() > 0) {
    reached.text += fmt::format("; half of the reads end within {} ms, 99 % within {} ms",
                                duration_cast<milliseconds>(stats.latency_p50).count(),
                                duration_cast<milliseconds>(stats.latency_p99).count());
  }
  if (stats.good == 0) {
    reached.health = Health::kLimit;
    reached.text = "has not answered yet; what is shown is the listing that was saved";
  }
  std::vector<Finding> findings = {std::move(reached), examine_clock("clock", stats.clock_behind)};
  if (stats.throttles > 0) {
    findings.push_back({.name = name,
                        .health = Health::kLimit,
                        .text = fmt::format("asked to slow down {} times in {} requests; at most {} are in flight now",
                                            stats.throttles, stats.requests, stats.in_flight_limit)});
  }
  return findings;
}

std::vector<Finding> examine_bucket(const std::string& url, const cache::ObjectStoreOptions& options) {
  const auto begin = steady_clock::now();
  const io::Result<cache::ObjectStoreStats> stats = cache::probe_bucket(url, options);
  const auto took = duration_cast<milliseconds>(steady_clock::now() - begin);
  if (!stats) {
    return {{.name = "source " + url, .health = Health::kMissing, .text = stats.error().message(), .remedy = {}}};
  }
  std::vector<Finding> findings = describe_bucket(url, *stats);
  findings.front().text += fmt::format("; the first answer took {} ms", took.count());
  return findings;
}

}  // namespace headrace::cli
