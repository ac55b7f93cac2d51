// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/peer_placement.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <xxhash.h>

#include "headrace/cache/shared/shared_value.h"
#include "headrace/io/result.h"

namespace headrace::cache {
namespace {

// What memcached keeps beside the key and the value of an item.
constexpr std::uint64_t kItemBytes = 56 + kSharedKeyBytes;

struct Choice {
  PeerIndex first = kNoPeer;
  PeerIndex second = kNoPeer;
};

// Both are hashes already; this only has to make of each pair a number of its own. From the end of MurmurHash3
// (Appleby, 2011): a hash of 8 bytes costs several times as much, and it is files times peers of them.
std::uint64_t mixed(std::uint64_t bits) {
  bits ^= bits >> 33U;
  bits *= 0xff51afd7ed558ccdULL;
  bits ^= bits >> 33U;
  bits *= 0xc4ceb9fe1a85ec53ULL;
  return bits ^ bits >> 33U;
}

Choice choose(std::uint64_t hash, std::span<const std::uint64_t> seeds) {
  Choice choice;
  std::uint64_t best = 0;
  std::uint64_t next = 0;
  for (std::size_t peer = 0; peer < seeds.size(); ++peer) {
    const std::uint64_t weight = mixed(hash ^ seeds[peer]);
    if (choice.first == kNoPeer || weight > best) {
      choice.second = choice.first;
      next = best;
      choice.first = static_cast<PeerIndex>(peer);
      best = weight;
    } else if (choice.second == kNoPeer || weight > next) {
      choice.second = static_cast<PeerIndex>(peer);
      next = weight;
    }
  }
  return choice;
}

std::uint64_t footprint(const PlacedFile& file) {
  const std::uint64_t chunks = std::max<std::uint64_t>(1, chunk_count(file.bytes));
  return file.bytes + chunks * (kSharedHeaderBytes + kItemBytes);
}

}  // namespace

std::vector<PeerIndex> place_on_peers(std::span<const PlacedFile> files, std::span<const std::string> peers,
                                      std::uint64_t bytes_per_peer) {
  HEADRACE_ASSERT(peers.size() <= kPeersMax);
  std::vector<std::uint64_t> seeds;
  for (const std::string& peer : peers) seeds.push_back(XXH3_64bits(peer.data(), peer.size()));
  // Slabs lose 4.5 % of a peer's memory with the options that the README names, and the tables of keys some more.
  std::vector<std::uint64_t> room(peers.size(), bytes_per_peer / 10 * 9);

  // By hash: which files stay with the source does not depend on the order of the catalog.
  std::vector<std::uint32_t> by_hash(files.size());
  std::iota(by_hash.begin(), by_hash.end(), 0U);
  std::sort(by_hash.begin(), by_hash.end(), [&](std::uint32_t a, std::uint32_t b) {
    return files[a].hash != files[b].hash ? files[a].hash < files[b].hash : a < b;
  });

  std::vector<PeerIndex> owners(files.size(), kNoPeer);
  for (const std::uint32_t file : by_hash) {
    const std::uint64_t bytes = footprint(files[file]);
    const Choice choice = choose(files[file].hash, seeds);
    for (const PeerIndex peer : {choice.first, choice.second}) {
      if (peer == kNoPeer || room[peer] < bytes) continue;
      room[peer] -= bytes;
      owners[file] = peer;
      break;
    }
  }
  return owners;
}

std::vector<PeerIndex> place_entries(const Catalog& catalog, std::string_view data_set,
                                     std::span<const std::string> peers, std::uint64_t bytes_per_peer) {
  const std::uint64_t seed = XXH3_64bits(data_set.data(), data_set.size());
  std::vector<PlacedFile> files;
  std::vector<EntryId> entries;
  for (EntryId entry = 0; entry < catalog.entry_count(); ++entry) {
    if (!catalog.is_file(entry) || catalog.size_bytes(entry) == 0) continue;
    const std::string path = catalog.path(entry);
    files.push_back({XXH3_64bits_withSeed(path.data(), path.size(), seed), catalog.size_bytes(entry)});
    entries.push_back(entry);
  }
  const std::vector<PeerIndex> owner_of_file = place_on_peers(files, peers, bytes_per_peer);
  std::vector<PeerIndex> owners(catalog.entry_count(), kNoPeer);
  for (std::size_t i = 0; i < entries.size(); ++i) owners[entries[i]] = owner_of_file[i];
  return owners;
}

Status check_peer_count(std::size_t count) {
  if (count <= kPeersMax) return {};
  return io::make_error(io::ErrorCode::kInvalidArgument,
                        fmt::format("{} peers are named; at most {} can share", count, kPeersMax));
}

}  // namespace headrace::cache
