// SPDX-License-Identifier: Apache-2.0
// What the steps of a read work with. The Store owns it, opens it and closes it; the steps only use it.
//
// The life of a read: the RAM tier holds the chunk (a pin, a view, no allocation), or the chunk is on its way (one more
// waiter), or a fetch begins (fetch.h). The fetch waits for its part of the budget, tries the disk tiers, then the
// source, and hands views to the waiters; disk tiers write their copies from the same buffer.
//
// Thread-safety: each part takes care of itself. No lock of this room is held while a callback runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "headrace/cache/catalog.h"
#include "headrace/cache/disk/disk_tier.h"
#include "headrace/cache/memory/memory_queue.h"
#include "headrace/cache/memory/ram_tier.h"
#include "headrace/cache/source/source.h"
#include "headrace/cache/store/following.h"
#include "headrace/cache/store/identities.h"
#include "headrace/io/timer_thread.h"

namespace headrace::cache {

struct StoreParts {
  StoreParts(Catalog catalog_in, std::uint64_t ram_bytes)
      : catalog(std::move(catalog_in)),
        ram(ram_bytes, [this] { memory.pump_soon(); }),
        memory(ram, timers, [this](std::function<void()> task) { source->post(std::move(task)); }) {}

  [[nodiscard]] bool held_on_disk(const RecordId& record) const {
    return std::any_of(tiers.begin(), tiers.end(), [&](const auto& tier) { return tier->contains(record); });
  }

  const Catalog catalog;
  Identities identities{catalog};
  io::TimerThread timers{"hr-timer"};
  RamTier ram;
  MemoryQueue memory;
  std::unique_ptr<Source> source;  // set before the first read, as are the next two
  DiskTiers tiers;
  std::unique_ptr<TierFollower> follower;  // decides what the disk tiers hold
  std::atomic<bool> closing = false;       // no step of a read starts another one any more

  std::atomic<std::uint64_t> reads = 0;           // that the store was asked for
  std::atomic<std::uint64_t> shared_fetches = 0;  // reads that waited for a fetch that was under way
  std::atomic<std::uint64_t> failures = 0;        // reads that a failed fetch ended
};

}  // namespace headrace::cache
