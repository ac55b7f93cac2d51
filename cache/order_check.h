// SPDX-License-Identifier: Apache-2.0
// Whether what a loader opened is what an order says, and from where on it is not: "headrace order --check".
//
//   const OrderCheck check = check_order(*order, opens, {.sample_count = n});
//   for (const OrderCheck::Stretch& stretch : check.stretches) print(stretch.epoch, stretch.fitting, stretch.opens);
//   if (check.difference) print(check.difference->open, name(check.difference->expected));
//
// An open fits where its position lies near the reader's place, so that batches, workers and ranks need not be known.
// The epochs that were read are found by the same evidence as a learned order (order/README.md): some two dozen opens
// tell one. Fewer than 200 samples may not hold so much, and whoever reads them looks like no order at all.
//
// Thread-safety: pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "headrace/cache/order.h"

namespace headrace::cache {

struct OrderCheckOptions {
  std::uint64_t sample_count = 0;
  std::uint64_t first_epoch = 0;  // what was opened is of this epoch, or of one that comes soon after it
};

struct OrderCheck {
  // Opens that follow one epoch.
  struct Stretch {
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;  // where the reader was first seen
    std::uint64_t opens = 0;     // of different samples
    std::uint64_t fitting = 0;   // where the order has them
  };
  // The opens from here on are not the order's.
  struct Difference {
    std::uint64_t open = 0;  // number of the first one, from 0
    SampleIndex opened = 0;
    // What was to come instead; nullopt: no epoch was recognised before.
    std::optional<std::uint64_t> position = std::nullopt;
    std::optional<SampleIndex> expected = std::nullopt;
  };
  std::vector<Stretch> stretches;  // in the sequence of the opens
  std::optional<Difference> difference;
};

// Opens that can be judged at all.
inline constexpr std::size_t kOpensToCheck = 24;

[[nodiscard]] OrderCheck check_order(const Order& order, std::span<const SampleIndex> opens,
                                     const OrderCheckOptions& options);

}  // namespace headrace::cache
