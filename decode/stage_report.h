// SPDX-License-Identifier: Apache-2.0
// How long each stage between the reader and the training loop works and waits, and which one limits the rate.
//
//   StageReport report = loader->report();
//   print(format(report));   // a table of stages, then one line of advice
//
// Thread-safety: StageCounters from any thread; a StageReport is a plain value.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "headrace/cache/tier.h"
#include "headrace/decode/crop_indexes.h"

namespace headrace::decode {

enum class Bottleneck : std::uint8_t {
  kSource,    // decoders wait for bytes, most of which come from the source
  kCache,     // decoders wait for bytes that lie in a tier
  kDecode,    // bytes wait for the decoder threads
  kConsumer,  // finished samples wait for the consumer
};

struct StageReport {
  double elapsed_seconds = 0;  // since the start
  unsigned threads = 0;
  std::uint64_t samples = 0;  // decoded, good or bad
  std::uint64_t bad_samples = 0;
  std::uint64_t encoded_bytes = 0;
  double source_fraction = 0;  // of the samples, how many came from the source itself
  // Busy or waiting time, added up over the threads of the stage.
  double read_seconds = 0;       // the feeder waited for the reader
  double held_back_seconds = 0;  // the feeder waited for a free slot or place in the queue
  double decode_seconds = 0;     // BatchLoader resizes along the way
  double transform_seconds = 0;
  double idle_seconds = 0;     // decoder threads waited for work
  double deliver_seconds = 0;  // the consumer waited for the next sample or batch
  double consume_seconds = 0;  // between two calls of the consumer
  // Samples that lay in the queue to the decoders, on average, and its capacity.
  double queue_depth = 0;
  std::uint64_t queue_capacity = 0;
  CropReport crops;  // of JPEGs: how many were decoded from an index, and why others were not
};

[[nodiscard]] Bottleneck bottleneck_of(const StageReport& report);
// "source-bound", "cache-bound", "decode-bound" or "consumer-bound".
[[nodiscard]] std::string_view name_of(Bottleneck bottleneck);
// Several lines; the last one is the advice.
[[nodiscard]] std::string format(const StageReport& report);

class StageCounters {
 public:
  using Clock = std::chrono::steady_clock;

  // Adds the time from its construction to its destruction to a counter.
  class Timer {
   public:
    explicit Timer(std::atomic<std::uint64_t>& total_ns) : total_ns_(total_ns) {}
    ~Timer() {
      const auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_);
      total_ns_.fetch_add(static_cast<std::uint64_t>(passed.count()), std::memory_order_relaxed);
    }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

   private:
    std::atomic<std::uint64_t>& total_ns_;
    const Clock::time_point start_ = Clock::now();
  };

  void count_sample(std::size_t encoded_bytes, cache::TierKind served_from, std::size_t queue_depth);
  // All but `threads`, `queue_capacity` and `crops`.
  [[nodiscard]] StageReport report() const;

  std::atomic<std::uint64_t> read_ns = 0;
  std::atomic<std::uint64_t> held_back_ns = 0;
  std::atomic<std::uint64_t> decode_ns = 0;
  std::atomic<std::uint64_t> transform_ns = 0;
  std::atomic<std::uint64_t> idle_ns = 0;
  std::atomic<std::uint64_t> deliver_ns = 0;
  std::atomic<std::uint64_t> bad_samples = 0;

 private:
  const Clock::time_point start_ = Clock::now();
  std::atomic<std::uint64_t> samples_ = 0;
  std::atomic<std::uint64_t> encoded_bytes_ = 0;
  std::atomic<std::uint64_t> from_source_ = 0;
  std::atomic<std::uint64_t> depth_sum_ = 0;
};

}  // namespace headrace::decode
