// SPDX-License-Identifier: Apache-2.0
// A tier: a place that holds content. What its user says about a disk tier, and what any tier says about itself.
//
//   TierOptions ssd{.kind = TierKind::kSsd, .path = "/ssd/headrace", .budget_bytes = 1ULL << 40};
//   for (const TierStats& tier : store->stats().tiers) show(tier.path, tier.hits, tier.state);
//
// Thread-safety and ownership: plain values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace headrace::cache {

enum class TierKind : std::uint8_t { kRam, kSsd, kHdd, kShared, kSource };

// As figures and messages name it: "ram", "ssd", "hdd", "shared", "source".
[[nodiscard]] constexpr const char* name_of(TierKind kind) {
  switch (kind) {
    case TierKind::kRam:
      return "ram";
    case TierKind::kSsd:
      return "ssd";
    case TierKind::kHdd:
      return "hdd";
    case TierKind::kShared:
      return "shared";
    case TierKind::kSource:
      break;
  }
  return "source";
}

struct TierOptions {
  TierKind kind = TierKind::kSsd;  // kSsd or kHdd
  std::filesystem::path path;      // folder of the tier; made (0700) when missing
  std::uint64_t budget_bytes = 0;
  std::uint64_t keep_free_bytes = 0;  // so much of its file system stays free: the tier gives room back for that
};

// The memory that the nodes of a job share, a memcached on each. The same on every node.
struct SharedTierOptions {
  std::vector<std::string> peers;    // each HOST or HOST:PORT; empty: nothing is shared
  std::uint64_t bytes_per_peer = 0;  // what each memcached was given (-m)
  // A folder as make_peer_certificates() fills it; empty: peers talk in the clear, on private addresses only.
  std::filesystem::path certificates = {};
  // Which of the peers this node is, HOST:PORT; "": none of them. Where it is given, the nodes compare their lists.
  std::optional<std::string> own_peer = {};
};

// One node of those that share, as this one sees it.
struct PeerStats {
  std::string name;             // HOST:PORT
  std::string state;            // "ok", "full", or why it is down: "down: ..."
  std::uint64_t samples = 0;    // entries that it is to hold
  std::uint64_t bytes = 0;      // of these
  std::uint64_t hits = 0;       // chunks that it gave
  std::uint64_t hit_bytes = 0;  // of these
  std::uint64_t misses = 0;     // gets that it had no right value for
  std::uint64_t waits = 0;      // times that another node was reading the source, and was waited for
  std::uint64_t writes = 0;     // chunks that it was given
  std::uint64_t write_bytes = 0;
  std::uint64_t errors = 0;   // gets and puts that it did not answer, or too late
  std::uint64_t corrupt = 0;  // misses with a wrong value
  double seconds_p50 = 0;     // half of the gets took at most so long to be answered, within a factor of two
  double seconds_p99 = 0;
  double bytes_per_second = 0;  // that it gave in the last ten seconds
  // What its node has said of its own list: "same", "other peers", "other files", or nothing yet.
  std::string list;
};

struct TierStats {
  TierKind kind = TierKind::kSource;
  std::string path;
  std::uint64_t budget_bytes = 0;  // what it may hold now
  std::uint64_t asked_bytes = 0;   // of a disk tier: what it was given; more than that, where its file system is short
  std::uint64_t keep_free_bytes = 0;  // of a disk tier: what is to stay free of its file system
  std::uint64_t used_bytes = 0;
  std::uint64_t samples = 0;  // entries held; of the shared tier, those that its peers are to hold
  std::uint64_t hits = 0;     // reads served from here
  std::uint64_t hit_bytes = 0;
  std::uint64_t writes = 0;  // records or buffers admitted
  std::uint64_t write_bytes = 0;
  std::uint64_t moved_bytes = 0;  // copied within a disk tier, to make room
  std::uint64_t evictions = 0;
  std::uint64_t errors = 0;
  std::uint64_t corrupt = 0;  // records that failed because a checksum or identity was wrong
  std::string placement;      // how it chooses what to hold ("never evict"); of a hard disk: how it is read
  std::string state;          // "ok", or why admission stopped: "full", "busy: ...", "dropped: ..."
};

}  // namespace headrace::cache
