// SPDX-License-Identifier: Apache-2.0
// What a training is bound by: measured rates, and what they say.
//
// Thread-safety: measure_* block their caller; the rest is pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/cache/store.h"

namespace headrace::cli {

struct SampleRate {
  double samples_per_second = 0;
  double bytes_per_second = 0;
};

// Samples in a shuffled order through the store, whole files, for at most `time`.
[[nodiscard]] io::Result<SampleRate> measure_source(cache::Store& store, std::chrono::milliseconds time);
// Samples that the store's disk tiers hold, in a shuffled order, past the RAM tier, for at most `time`. 0 samples per
// second: the tiers hold none.
[[nodiscard]] io::Result<SampleRate> measure_tiers(cache::Store& store, std::chrono::milliseconds time);
// Decoding of some of the samples, held in memory, on all usable cores. 0 samples per second: nothing decodable.
[[nodiscard]] io::Result<SampleRate> measure_decode(cache::Store& store, std::chrono::milliseconds time);

// What a running mount saw of its loader meanwhile.
struct LoaderRate {
  double samples_per_second = 0;
  double hit_ratio = 1;  // samples that lay in memory when they were opened
};

struct Measured {
  SampleRate source;
  SampleRate tiers;   // samples_per_second 0: there are none, or they hold nothing yet
  SampleRate decode;  // samples_per_second 0: not known
  bool has_loader = false;
  LoaderRate loader;
};

// What the rate would be with a part of the data set held on the tiers that were measured, or else in a cache that
// keeps up; and with more cores to decode.
struct Prospect {
  double cached_fraction = 0;
  std::uint64_t cached_bytes = 0;  // of RAM or of an SSD tier
  std::uint32_t cores_factor = 1;  // times the cores of now
  double samples_per_second = 0;
  std::string bound_by;  // "source", "disk tiers", "decoding"
};

[[nodiscard]] std::vector<Prospect> predict(const Measured& measured, const std::vector<std::uint32_t>& sizes,
                                            const cache::Order& order);
// One paragraph: what it is bound by, and why.
[[nodiscard]] std::string verdict(const Measured& measured);

}  // namespace headrace::cli
