// SPDX-License-Identifier: Apache-2.0
// The parts of a data set whose orders are known, train/ and val/, as one order: whoever follows it keeps of one what
// is read next while the other is read.
//
//   if (const auto passes = parts_in_turn(tracks, active, sample_count)) follow(*passes);
//
// Thread-safety: pure.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "headrace/cache/learn/track.h"
#include "headrace/cache/pass_order.h"

namespace headrace::cache {

// The first track is the whole data set, the others its parts; `active` is read now, and comes first. null: it is the
// whole, or it is the only one whose order is known beyond its present epoch.
[[nodiscard]] std::shared_ptr<const PassOrder> parts_in_turn(std::span<const Track> tracks, std::size_t active,
                                                             std::uint64_t sample_count);

}  // namespace headrace::cache
