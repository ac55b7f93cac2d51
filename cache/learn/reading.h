// SPDX-License-Identifier: Apache-2.0
// How the job reads along the order that was found: which ranks are here, batch size, number of workers.
//
//   lock.spec = spec_as_read(match, opened_twice_or_more);
//
// Thread-safety: pure.
#pragma once

#include <string>

#include "headrace/cache/learn/search.h"

namespace headrace::cache {

// The match's spec with the parameters that its fit gives away. `opens_per_sample` of about 3 speaks for repeated
// augmentation.
[[nodiscard]] std::string spec_as_read(const Match& match, double opens_per_sample);

// How far the reader advances in the order with each open here: the ranks of the job per rank on this node.
[[nodiscard]] double positions_per_open(const Fit& fit);

// The lowest position that is part of a stream, strays aside: where the reader was when it was first seen.
[[nodiscard]] std::uint64_t first_position(const Fit& fit);

}  // namespace headrace::cache
