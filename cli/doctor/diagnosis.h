// SPDX-License-Identifier: Apache-2.0
// Says from measured rates what a training waits for, and what would change that.
//
//   const Diagnosis found = diagnose(measured);
//   fmt::print("{}: {}\n", name_of(found.bound), found.text);
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/cache/sample_sizes.h"
#include "headrace/cli/doctor/measure.h"

namespace headrace::cli {

// What a running mount and its readers did during the measurement. Of a reader's time it computes or waits for a core
// (busy), waits for an answer to READ (waiting), or does neither: it waits for whoever takes the samples.
struct LoaderSeen {
  double samples_per_second = 0;
  double hit_ratio = 1;   // part of the samples that lay in memory when they were opened
  double lost_ratio = 0;  // samples that the kernel took back, per opened one
  bool order_known = true;
  std::string order;          // that is followed; empty: the mount does not say
  bool learned = false;       // it was found in the opens
  double stray_ratio = 0;     // part of the opens that it did not expect
  std::string given_up;       // an order that was given and that the opens contradicted
  std::string pause;          // why nothing is read ahead, in words; empty: it is
  std::string search;         // how far the search through all seeds is, in words; empty: none is under way
  std::string shortage;       // why less memory than asked for may be used; empty: it is not
  std::string budget;         // for samples, in words
  std::uint32_t readers = 0;  // processes that were seen to read; 0: busy and waiting are not known
  double busy = 0;
  double waiting = 0;
  double cpu_seconds_per_sample = 0;
  double peer_ratio = 0;     // part of the bytes fetched meanwhile that came from peers
  std::string slowest_peer;  // which, and how fast it answered, in words; empty: nothing came from peers
};

struct Measured {
  std::uint32_t workers = 4;  // of the loader that `direct` stands for
  SampleRate direct;
  SampleRate source;
  SampleRate tiers;  // samples_per_second 0: there are none, or they hold nothing yet
  DecodeRate decode;
  bool has_loader = false;
  LoaderSeen loader;
  std::uint64_t requests_per_epoch = 0;  // of a bucket, where no tier holds anything; 0: the source is none
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

enum class Bound : std::uint8_t {
  kNothingRead,
  kSource,
  kPeers,   // the nodes that share, or the network to them
  kOrder,   // nobody knows yet what is read next, or what is followed is not what is read
  kMemory,  // too little to read ahead, or it is taken away
  kDecoding,
  kLoader,      // what the loader does with samples beside decoding them
  kConsumer,    // who takes the samples: the GPU
  kNotStorage,  // no more can be told, since the readers were not seen
};
[[nodiscard]] std::string_view name_of(Bound bound);

struct Diagnosis {
  Bound bound = Bound::kNothingRead;
  std::string text;  // one paragraph: what the training waits for, and why
};
[[nodiscard]] Diagnosis diagnose(const Measured& measured);

}  // namespace headrace::cli
