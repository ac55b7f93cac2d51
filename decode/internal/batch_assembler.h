// SPDX-License-Identifier: Apache-2.0
// The consumer's side of a BatchLoader: complete groups of rows to batches.
//
// A group without skipped samples is the batch, in the buffer that the group has. Otherwise (BadSamples::kSkip) the
// good rows of as many groups as it takes are copied into a spare buffer. The buffer of the first group that is used up
// so becomes the next spare one.
//
// Thread-safety: none; the consumer's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "headrace/decode/batch_loader.h"
#include "headrace/decode/internal/batch_buffers.h"
#include "headrace/decode/internal/decode_line.h"
#include "headrace/decode/internal/skipped_rows.h"

namespace headrace::decode {

struct AssemblyOptions {
  std::size_t batch_size = 0;
  std::size_t sample_bytes = 0;  // 0: rows are parts of JPEGs
  bool drop_last = false;
  BadSamples bad_samples = BadSamples::kRaise;
  std::uint64_t first_batch = 0;
};

class BatchAssembler {
 public:
  // Line and skipped rows outlive the assembler. The line has not begun.
  BatchAssembler(DecodeLine& line, std::shared_ptr<BatchBuffers> buffers, SkippedRows& skipped,
                 const AssemblyOptions& options);

  // Empty at the end. Errors: a bad sample's, with kRaise; kTimedOut: the next call goes on where this one was.
  [[nodiscard]] Result<LentBatch> next(std::chrono::steady_clock::time_point deadline);

 private:
  [[nodiscard]] bool is_batch(const RowGroup& group) const;
  // The group's buffer, as the batch that it is.
  [[nodiscard]] Result<BatchBuffer*> take(RowGroup& group);
  // Whether a batch of this epoch was handed out, by this loader or by the one that it goes on for.
  [[nodiscard]] bool has_begun(std::uint64_t epoch) const;
  // The next buffer that is as full as its epoch lets it be. nullptr at the end. Errors: as next().
  [[nodiscard]] Result<BatchBuffer*> fill(std::chrono::steady_clock::time_point deadline);
  // Copies the good rows of the group to the buffer that is being filled, as far as they fit.
  void gather(RowGroup& group);
  void gather_from(RowGroup& group, BatchBuffer& to);
  void put_back(BatchBuffer& buffer);

  static void begin_batch(Batch& batch, std::uint64_t epoch);
  static void drop_rows(Batch& batch);
  void add_row(Row& row, Batch& batch) const;
  void add_note(const Row& row, Batch& batch) const;
  void number(Batch& batch);

  DecodeLine& line_;
  const std::shared_ptr<BatchBuffers> buffers_;
  SkippedRows& skipped_;
  const AssemblyOptions options_;
  BatchBuffer* spare_ = nullptr;    // kSkip: for rows of several groups
  BatchBuffer* filling_ = nullptr;  // has rows of groups that are used up
  std::size_t cursor_ = 0;          // rows of the front group that are used up
  std::uint64_t next_number_;
  std::uint64_t number_epoch_ = 0;
  bool numbered_ = false;  // a batch was begun
};

}  // namespace headrace::decode
