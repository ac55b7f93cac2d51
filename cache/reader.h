// SPDX-License-Identifier: Apache-2.0
// Hands out the samples of epochs in exactly the order given, and reads ahead along it.
//
//   auto reader = Reader::open(*store, *order, {.epochs = 2});
//   while (auto sample = (*reader)->next()) {
//     if (!sample->bytes) continue;   // this one failed: sample->bytes.error()
//     train(sample->bytes->bytes(), sample->label);
//   }
//
// Thread-safety: next() from several threads (each sample goes to one of them); cancel() from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "headrace/cache/order.h"
#include "headrace/cache/read_ahead.h"
#include "headrace/cache/record_set.h"
#include "headrace/cache/store.h"

namespace headrace::cache {

struct Sample {
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  // within the epoch
  SampleIndex index = 0;       // the loader's dataset[index]
  std::uint32_t label = 0;
  EntryId entry = 0;  // catalog().path(entry) is the path; of a record the pack's
  Result<View> bytes = View{};
};

struct ReaderOptions {
  std::uint64_t first_epoch = 0;
  std::uint64_t epochs = 1;
  std::uint64_t first_position = 0;  // resume: skips this many samples of first_epoch
  // How far to read ahead. 0: a 32nd of the RAM, but 256 samples or 64 MiB at least; of a bucket 1 024 samples, as far
  // as a quarter of the RAM holds them, and so of records.
  std::uint64_t window_bytes = 0;
  // The samples are these records, which the order is over. A pack that is another version than its map gives kStale.
  std::shared_ptr<const RecordSet> records;
};

class Reader {
 public:
  // The store and the order outlive the reader. Errors: kInvalidArgument
  // (no epochs, a position or records that the order does not have).
  [[nodiscard]] static Result<std::unique_ptr<Reader>> open(Store& store, const Order& order, ReaderOptions options);
  virtual ~Reader() = default;

  // Blocks until the next sample in order is in memory. nullopt: all epochs done, or cancelled.
  [[nodiscard]] virtual std::optional<Sample> next() = 0;
  // Ends next() everywhere, now and later.
  virtual void cancel() = 0;
  [[nodiscard]] virtual ReadAhead::State state() const = 0;
};

}  // namespace headrace::cache
