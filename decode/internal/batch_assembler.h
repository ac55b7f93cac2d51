// SPDX-License-Identifier: Apache-2.0
// The consumer's side of a BatchLoader: finished slots to batches.
//
// A slot without skipped samples is the batch. Otherwise (BadSamples::kSkip) the good rows of as many slots as it takes
// are copied into a batch of the assembler's own.
//
// Thread-safety: none; the consumer's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "headrace/decode/batch_loader.h"
#include "headrace/decode/internal/batch_slot.h"
#include "headrace/decode/internal/slot_ring.h"

namespace headrace::decode {

struct AssemblyOptions {
  std::size_t batch_size = 0;
  std::size_t sample_bytes = 0;
  bool drop_last = false;
  BadSamples bad_samples = BadSamples::kRaise;
  std::uint64_t first_batch = 0;
  std::span<std::byte> spare;  // kSkip: memory of a batch
};

class BatchAssembler {
 public:
  // Both outlive the assembler.
  BatchAssembler(SlotRing<BatchSlot>& ring, SkippedRows& skipped, const AssemblyOptions& options);

  // Valid until the next call; nullptr at the end. Errors: a bad sample's, with kRaise.
  [[nodiscard]] Result<const Batch*> next();

 private:
  [[nodiscard]] bool is_batch(const BatchSlot& slot) const;
  [[nodiscard]] Status take_slot(BatchSlot& slot);
  void gather();
  void gather_from(BatchSlot& slot);
  void begin_batch(std::uint64_t epoch, std::span<std::byte> data);
  void add_row(const BatchRow& row);
  void finish_batch();

  SlotRing<BatchSlot>& ring_;
  SkippedRows& skipped_;
  const AssemblyOptions options_;
  Batch batch_;
  bool holds_front_ = false;  // batch_ lies in the front slot
  std::size_t cursor_ = 0;    // rows of the front slot that are used up
  std::uint64_t next_number_;
  std::uint64_t number_epoch_ = 0;
  bool numbered_ = false;  // a batch was begun
};

}  // namespace headrace::decode
