// SPDX-License-Identifier: Apache-2.0
// What a mount's figures say of the nodes that it shares with, in words.
//
//   if (const std::string shares = describe_shares(stat); !shares.empty()) fmt::print("{}\n", shares);
//
// Thread-safety: any thread.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace headrace::cli {

// Where the samples of an epoch came from so far, those read ahead among them.
struct EpochShares {
  double own = 0;  // this node's memory, disks, and what it holds for all
  double peers = 0;
  double source = 0;
};
// All 0 where nothing is shared, no order is followed, or the epoch has not begun. `stat`: the daemon's answer.
[[nodiscard]] EpochShares epoch_shares(const nlohmann::json& stat);
// "of this epoch's samples: 34% own, 65% peers, 1% source"; "" as above.
[[nodiscard]] std::string describe_shares(const nlohmann::json& stat);
// "n1:11311 120.4 MiB/s, n2:11311 98.1 MiB/s": of the last seconds, the fastest first; "" where none gave anything.
[[nodiscard]] std::string describe_peer_rates(const nlohmann::json& stat);
// Why a peer reads the source more than it had to: its node was named others. "": it was not, or has not said so.
[[nodiscard]] std::string describe_other_list(const nlohmann::json& peer);

}  // namespace headrace::cli
