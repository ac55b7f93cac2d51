// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/peer_words.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace peer_words_test {
namespace {

using headrace::cli::describe_other_list;
using headrace::cli::describe_peer_rates;
using headrace::cli::describe_shares;
using nlohmann::json;

json stat_of(std::uint64_t position, std::uint64_t own, std::uint64_t peers, std::uint64_t source) {
  return {
      {"mount", {{"position", position}, {"ahead_samples", 50}}},
      {"store",
       {{"peers", {{{"name", "n1:1"}, {"bytes_per_second", 1048576.0}}, {{"name", "n2:1"}, {"bytes_per_second", 0}}}},
        {"epoch_reads",
         {{"disk_reads", 0}, {"own_peer_reads", own}, {"peer_reads", peers}, {"source_reads", source}}}}}};
}

}  // namespace

TEST_CASE("peer words: where an epoch's samples came from") {
  // Of the 200, 60 lay in the mount's memory.
  CHECK(describe_shares(stat_of(150, 40, 80, 20)) == "of this epoch's samples: 50% own, 40% peers, 10% source");
  // What was fetched for the epoch before is not counted, so more may have come than was read.
  CHECK(describe_shares(stat_of(0, 50, 50, 0)) == "of this epoch's samples: 50% own, 50% peers, 0% source");
  json alone = stat_of(150, 0, 0, 20);
  alone["store"]["peers"] = json::array();
  CHECK(describe_shares(alone).empty());
  json unknown = stat_of(150, 0, 0, 20);
  unknown["store"].erase("epoch_reads");
  CHECK(describe_shares(unknown).empty());
  CHECK(describe_shares(json::object()).empty());
}

TEST_CASE("peer words: how fast each gives, and whose list differs") {
  CHECK(describe_peer_rates(stat_of(1, 1, 1, 1)) == "n1:1 1.0 MiB/s");
  CHECK(describe_peer_rates(json::object()).empty());
  CHECK(describe_other_list({{"list", "other peers"}}) == "was named other peers, or another --share");
  CHECK_FALSE(describe_other_list({{"list", "other files"}}).empty());
  CHECK(describe_other_list({{"list", "same"}}).empty());
  CHECK(describe_other_list({{"list", ""}}).empty());
}

}  // namespace peer_words_test
