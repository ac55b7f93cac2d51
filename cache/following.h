// SPDX-License-Identifier: Apache-2.0
// Somebody who reads along an order and says so, so that the disk tiers hold what that order needs next.
//
//   auto following = store->follow(*order, {.epoch = 3});
//   following->enter(4);     // the next epoch begins
//   following.reset();       // nobody reads along the order any more
//
// Thread-safety: one thread at a time. Ownership: the caller's; the store and the order outlive it.
#pragma once

#include <cstdint>

namespace headrace::cache {

class Following {
 public:
  virtual ~Following() = default;
  virtual void enter(std::uint64_t epoch) = 0;  // blocks while the next uses of samples are drawn
};

struct FollowOptions {
  std::uint64_t epoch = 0;
  std::uint64_t held_bytes = 0;  // what the reader can hold beside the store's tiers
};

// How near an epoch came to what no cache of this size can do better.
struct EpochReads {
  std::uint64_t epoch = 0;
  std::uint64_t source_reads = 0;
  // How many files of the epoch do not fit, when the smallest are held: N - C where sizes are equal. This is a bound
  // and no forecast: the first epoch does not reach it, nor do epochs that differ, where MIN itself needs more.
  std::uint64_t minimum_source_reads = 0;
  std::uint64_t disk_reads = 0;      // of this node's own disk tiers
  std::uint64_t own_peer_reads = 0;  // of what this node holds for all that share
  std::uint64_t peer_reads = 0;      // of what the other nodes hold
};

}  // namespace headrace::cache
