// SPDX-License-Identifier: Apache-2.0
// Which peer of the shared tier holds which file. Every node computes the same from the catalog and the list of peers,
// so that nobody has to be asked.
//
//   const std::vector<PeerIndex> owners = place_on_peers(files, {"n1:11311", "n2:11311"}, 64ULL << 30);
//   if (owners[i] != kNoPeer) ask(peers[owners[i]]);
//
// Rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998): each file goes
// to the peer for which the hash of both is highest. A peer that leaves gives up its own files and moves no other; one
// that comes takes an equal part from each. What does not fit into its first peer goes to its second choice, and else
// stays with the source: a peer that never has to evict serves what it holds in every epoch.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/cache/catalog.h"

namespace headrace::cache {

using PeerIndex = std::uint16_t;
inline constexpr PeerIndex kNoPeer = UINT16_MAX;
// The cost of placing is files times peers: for a million files 0.65 s of CPU with 64 peers and 2.3 s with 1 024
// (place_on_peers() alone, -O2, 2026-11).
inline constexpr std::size_t kPeersMax = 1024;

struct PlacedFile {
  std::uint64_t hash = 0;  // of data set and path, the same on every node
  std::uint64_t bytes = 0;
};

// For each file its peer, or kNoPeer. `bytes_per_peer`: the memory of each; a tenth of it is left to the peer's own
// needs. At most kPeersMax peers, whose names decide (not their order in the list).
[[nodiscard]] std::vector<PeerIndex> place_on_peers(std::span<const PlacedFile> files,
                                                    std::span<const std::string> peers, std::uint64_t bytes_per_peer);

// The same for each entry of a catalog; folders and empty files have none.
[[nodiscard]] std::vector<PeerIndex> place_entries(const Catalog& catalog, std::string_view data_set,
                                                   std::span<const std::string> peers, std::uint64_t bytes_per_peer);
// Errors: kInvalidArgument where there are more than kPeersMax.
[[nodiscard]] Status check_peer_count(std::size_t count);

}  // namespace headrace::cache
