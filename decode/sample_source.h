// SPDX-License-Identifier: Apache-2.0
// Where encoded samples come from: the seam between decoding and the cache.
//
//   auto source = read_from(*reader, store->catalog());   // reader: cache::Reader
//
// Tests and benchmarks implement it over memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "headrace/cache/catalog.h"
#include "headrace/cache/reader.h"
#include "headrace/decode/transform.h"
#include "headrace/io/result.h"

namespace headrace::decode {

using cache::SampleIndex;
using io::Result;
using io::Status;

// One sample as it lies on storage.
struct RawSample {
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  // within the epoch
  SampleIndex index = 0;       // within the data set
  std::uint32_t label = 0;
  Result<std::span<const std::byte>> bytes;
  cache::TierKind served_from = cache::TierKind::kRam;
  std::shared_ptr<const void> pin;  // keeps `bytes` alive
  std::optional<CropPlan> plan;     // what to show of the image, where the source has drawn it; else the loader draws
};

// Thread-safety: next() from one thread; cancel() and path() from any thread.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  // Blocks until the next sample in order is there. nullopt: the end, or cancelled.
  [[nodiscard]] virtual std::optional<RawSample> next() = 0;
  // Ends next(), now and later.
  virtual void cancel() = 0;
  // Names a sample to people.
  [[nodiscard]] virtual std::string path(SampleIndex index) const = 0;
};

// To whoever waits for a batch with a deadline, kTimedOut says that it has passed. A sample may have failed by a time
// limit of its own, a server's for instance: that is an error of the system's instead.
[[nodiscard]] io::Error error_of_sample(io::Error error);

// The reader and the catalog outlive the source.
[[nodiscard]] std::unique_ptr<SampleSource> read_from(cache::Reader& reader, const cache::Catalog& catalog);

}  // namespace headrace::decode
