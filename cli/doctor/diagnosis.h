// SPDX-License-Identifier: Apache-2.0
// Measures rates and says what a training waits for.
//
// Thread-safety: the measure functions block their caller; the others are pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/cache/sample_sizes.h"
#include "headrace/cache/store.h"

namespace headrace::cli {

struct SampleRate {
  double samples_per_second = 0;
  double bytes_per_second = 0;
};

// Reads whole samples through the store in a shuffled order, for at most `time`.
[[nodiscard]] io::Result<SampleRate> measure_source(cache::Store& store, std::chrono::milliseconds time);
// Reads samples that the store's disk tiers hold, in a shuffled order and past the RAM tier, for at most `time`.
// 0 samples per second: the tiers hold none.
[[nodiscard]] io::Result<SampleRate> measure_tiers(cache::Store& store, std::chrono::milliseconds time);
// Decodes some of the samples from memory on all usable cores. 0 samples per second: nothing could be decoded.
[[nodiscard]] io::Result<SampleRate> measure_decode(cache::Store& store, std::chrono::milliseconds time);

// What a running mount saw of its loader during the measurement.
struct LoaderRate {
  double samples_per_second = 0;
  double hit_ratio = 1;  // part of the samples that lay in memory when they were opened
};

struct Measured {
  SampleRate source;
  SampleRate tiers;   // samples_per_second 0: there are none, or they hold nothing yet
  SampleRate decode;  // samples_per_second 0: not known
  bool has_loader = false;
  LoaderRate loader;
};

// The rate that is to be expected when a part of the data set is held, and when there are more cores to decode. Held on
// the disk tiers that were measured; without such tiers, in a cache that is fast enough.
struct Prospect {
  double cached_fraction = 0;
  std::uint64_t cached_bytes = 0;  // in RAM or on an SSD tier
  std::uint32_t cores_factor = 1;  // how many times the cores that there are now
  double samples_per_second = 0;
  std::string bound_by;  // "source", "disk tiers", "decoding"
};

[[nodiscard]] std::vector<Prospect> predict(const Measured& measured, const cache::SampleSizes& sizes,
                                            const cache::Order& order);
// One paragraph: what the training waits for, and why.
[[nodiscard]] std::string verdict(const Measured& measured);

}  // namespace headrace::cli
