// SPDX-License-Identifier: Apache-2.0
// The consumer's side of a BatchLoader: complete groups of rows to batches.
//
// A group without skipped samples is the batch. Otherwise (BadSamples::kSkip) the good rows of as many groups as it
// takes are copied into a batch of the assembler's own.
//
// Thread-safety: none; the consumer's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "headrace/decode/batch_loader.h"
#include "headrace/decode/internal/decode_line.h"
#include "headrace/decode/internal/skipped_rows.h"

namespace headrace::decode {

struct AssemblyOptions {
  std::size_t batch_size = 0;
  std::size_t sample_bytes = 0;
  bool drop_last = false;
  BadSamples bad_samples = BadSamples::kRaise;
  std::uint64_t first_batch = 0;
  std::span<const std::span<std::byte>> memory;  // of each group; with kSkip, one more for batches copied together
};

class BatchAssembler {
 public:
  // Both outlive the assembler.
  BatchAssembler(DecodeLine& line, SkippedRows& skipped, const AssemblyOptions& options);

  // Valid until the next call; nullptr at the end. Errors: a bad sample's, with kRaise.
  [[nodiscard]] Result<const Batch*> next();

 private:
  [[nodiscard]] bool is_batch(const RowGroup& group) const;
  [[nodiscard]] Status take(const RowGroup& group);
  void gather();
  void gather_from(const RowGroup& group);
  [[nodiscard]] std::span<std::byte> memory_of(const RowGroup& group) const;
  void begin_batch(std::uint64_t epoch, std::span<std::byte> data);
  void add_row(const Row& row);
  void add_note(const Row& row);
  void finish_batch();

  DecodeLine& line_;
  SkippedRows& skipped_;
  const AssemblyOptions options_;
  Batch batch_;
  bool holds_front_ = false;  // batch_ lies in the front group
  std::size_t cursor_ = 0;    // rows of the front group that are used up
  std::uint64_t next_number_;
  std::uint64_t number_epoch_ = 0;
  bool numbered_ = false;  // a batch was begun
};

}  // namespace headrace::decode
