// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/doctor/doctor.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/peer_words.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

Finding describe_talk(const json& share) {
  if (flag_of(share, "tls")) {
    return {.name = "peers", .health = Health::kGood, .text = "talk TLS with certificates of this job"};
  }
  return {.name = "peers",
          .health = Health::kInfo,
          .text =
              "talk in the clear on private addresses: whoever reaches these, and every user of the "
              "nodes, can read what is shared and change what is trained on",
          .remedy = "headrace peers init DIR, and headrace mount --peer-tls DIR on every node"};
}

Finding describe_own(const json& share) {
  const std::string why_not = text_of(share, "why_not_started");
  const std::string name = "memcached of this node";
  if (why_not.empty()) {
    return {.name = name, .health = Health::kGood, .text = "started by the mount: " + text_of(share, "command")};
  }
  const bool is_missing = why_not.find("not installed") != std::string::npos;
  return {.name = name,
          .health = is_missing ? Health::kLimit : Health::kInfo,
          .text = "not started by the mount: " + why_not,
          .remedy = is_missing ? "apt install memcached" : ""};
}

Finding describe_peer(const json& peer) {
  const std::string state = text_of(peer, "state");
  const std::string name = "peer " + text_of(peer, "name");
  if (const std::string other = describe_other_list(peer); state == "ok" && !other.empty()) {
    return {.name = name,
            .health = Health::kLimit,
            .text = other + ": what only one of the two nodes looks for there is read from the source again",
            .remedy = "the same --peers and --share on every node; headrace set MOUNTPOINT peers=LIST"};
  }
  if (state == "ok") {
    return {.name = name,
            .health = Health::kGood,
            .text = fmt::format("answers; is to hold {}", format_size(number_of(peer, "bytes")))};
  }
  return {.name = name,
          .health = Health::kLimit,
          .text = state + "; its files are read from the source",
          .remedy = state == "full" ? "its memcached has less memory than --share says, or serves others, too" : ""};
}

}  // namespace

std::vector<Finding> describe_peers(const json& stat) {
  const json& share = member_of(stat, "share");
  if (share.empty()) return {};
  std::vector<Finding> findings = {describe_talk(share), describe_own(share)};
  if (const std::string failure = text_of(share, "list_failure"); !failure.empty()) {
    findings.push_back({.name = "list of peers",
                        .health = Health::kLimit,
                        .text = "cannot be had, so the peers stay as they were: " + failure});
  }
  for (const json& peer : member_of(member_of(stat, "store"), "peers")) findings.push_back(describe_peer(peer));
  return findings;
}

}  // namespace headrace::cli
