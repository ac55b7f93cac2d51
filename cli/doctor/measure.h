// SPDX-License-Identifier: Apache-2.0
// Measures how fast a data set can be read and decoded here.
//
//   HEADRACE_TRY(direct, measure_direct(store, source, 4, 2s));   // what four workers of a loader get without headrace
//
// Thread-safety: the functions block their caller; one at a time.
#pragma once

#include <chrono>
#include <cstdint>

#include "headrace/cache/store.h"
#include "headrace/cli/setup/data_set.h"

namespace headrace::cli {

struct SampleRate {
  double samples_per_second = 0;
  double bytes_per_second = 0;
};

// Decoding on all usable cores. 0: nothing could be decoded.
struct DecodeRate {
  double samples_per_second = 0;
  double cpu_seconds = 0;  // of one sample on one core: other programs on the same cores do not change it
};

// Reads whole samples through the store in a shuffled order, many at once, for at most `time`.
[[nodiscard]] io::Result<SampleRate> measure_source(cache::Store& store, std::chrono::milliseconds time);
// Reads the source's files as a loader without headrace does: each of `workers` threads opens and reads one file after
// the other, in a shuffled order, for at most `time`. Of a bucket, each has one request under way: what a plain client
// gets. Files that cannot be read do not count.
[[nodiscard]] io::Result<SampleRate> measure_direct(cache::Store& store, const Source& source, std::uint32_t workers,
                                                    std::chrono::milliseconds time);
// Reads samples that the store's disk tiers hold, in a shuffled order and past the RAM tier, for at most `time`.
// 0 samples per second: the tiers hold none.
[[nodiscard]] io::Result<SampleRate> measure_tiers(cache::Store& store, std::chrono::milliseconds time);
// Decodes some of the samples from memory.
[[nodiscard]] io::Result<DecodeRate> measure_decode(cache::Store& store, std::chrono::milliseconds time);

}  // namespace headrace::cli
