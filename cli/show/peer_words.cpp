// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/peer_words.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"

namespace headrace::cli {

using nlohmann::json;

EpochShares epoch_shares(const json& stat) {
  const json& store = member_of(stat, "store");
  const json& reads = member_of(store, "epoch_reads");
  if (member_of(store, "peers").empty() || reads.empty()) return {};
  const json& mount = member_of(stat, "mount");
  const auto peers = static_cast<double>(number_of(reads, "peer_reads"));
  const auto source = static_cast<double>(number_of(reads, "source_reads"));
  const std::uint64_t fetched = number_of(reads, "disk_reads") + number_of(reads, "own_peer_reads");
  const auto seen = static_cast<double>(number_of(mount, "position") + number_of(mount, "ahead_samples"));
  const double all = std::max(seen, static_cast<double>(fetched) + peers + source);
  if (all == 0) return {};
  return {.own = (all - peers - source) / all, .peers = peers / all, .source = source / all};
}

std::string describe_shares(const json& stat) {
  const EpochShares shares = epoch_shares(stat);
  if (shares.own + shares.peers + shares.source == 0) return "";
  return fmt::format("of this epoch's samples: {:.0f}% own, {:.0f}% peers, {:.0f}% source", 100 * shares.own,
                     100 * shares.peers, 100 * shares.source);
}

std::string describe_peer_rates(const json& stat) {
  constexpr std::size_t kPeersShown = 4;  // a line holds no more
  std::vector<std::pair<double, std::string>> rates;
  for (const json& peer : member_of(member_of(stat, "store"), "peers")) {
    const double rate = real_of(peer, "bytes_per_second");
    if (rate > 0) rates.emplace_back(rate, text_of(peer, "name"));
  }
  std::ranges::sort(rates, std::greater<>());
  std::string text;
  for (std::size_t i = 0; i < std::min(kPeersShown, rates.size()); ++i) {
    text += fmt::format("{}{} {}/s", text.empty() ? "" : ", ", rates[i].second,
                        format_size(static_cast<std::uint64_t>(rates[i].first)));
  }
  if (rates.size() > kPeersShown) text += fmt::format(", and {} more", rates.size() - kPeersShown);
  return text;
}

std::string describe_other_list(const json& peer) {
  const std::string list = text_of(peer, "list");
  if (list == "other peers") return "was named other peers, or another --share";
  return list == "other files" ? "has listed other files of the data set" : "";
}

}  // namespace headrace::cli
