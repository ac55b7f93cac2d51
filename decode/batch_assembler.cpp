// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/internal/batch_assembler.h"

#include <algorithm>
#include <utility>

namespace headrace::decode {

namespace {

SampleState state_of(const Row& row) {
  if (!row.status) return SampleState::kBad;
  return row.damage.empty() ? SampleState::kGood : SampleState::kRepaired;
}

}  // namespace

BatchAssembler::BatchAssembler(DecodeLine& line, std::shared_ptr<BatchBuffers> buffers, SkippedRows& skipped,
                               const AssemblyOptions& options)
    : line_(line),
      buffers_(std::move(buffers)),
      skipped_(skipped),
      options_(options),
      next_number_(options.first_batch) {
  if (options.bad_samples == BadSamples::kSkip) spare_ = buffers_->take();
}

Result<LentBatch> BatchAssembler::next(std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    HEADRACE_TRY(buffer, fill(deadline));
    if (buffer == nullptr) return LentBatch();
    const std::size_t rows = buffer->batch.labels.size();
    const bool is_full = rows == options_.batch_size || (rows > 0 && !options_.drop_last);
    if (is_full || !has_begun(buffer->batch.epoch)) {
      if (!is_full) drop_rows(buffer->batch);
      number(buffer->batch);
      return lend(buffers_, *buffer);
    }
    put_back(*buffer);
  }
}

Result<BatchBuffer*> BatchAssembler::fill(std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    if (!line_.await_front(deadline)) return io::make_error(io::ErrorCode::kTimedOut, "no batch is ready");
    RowGroup* group = line_.front();
    const bool epoch_ends = group == nullptr || (filling_ != nullptr && group->epoch != filling_->batch.epoch);
    if (epoch_ends) return std::exchange(filling_, nullptr);
    if (filling_ == nullptr && is_batch(*group)) return take(*group);
    gather(*group);
    if (filling_->batch.labels.size() == options_.batch_size) return std::exchange(filling_, nullptr);
  }
}

// Whether the group, as it lies there, is the next batch.
bool BatchAssembler::is_batch(const RowGroup& group) const {
  if (options_.bad_samples != BadSamples::kSkip) return true;
  return cursor_ == 0 && group.row_count == options_.batch_size &&
         std::ranges::all_of(group.rows, [](const Row& row) { return row.status.has_value(); });
}

Result<BatchBuffer*> BatchAssembler::take(RowGroup& group) {
  BatchBuffer* buffer = group.buffer;
  begin_batch(buffer->batch, group.epoch);
  for (std::size_t i = 0; i < group.row_count; ++i) {
    Row& row = group.rows[i];
    if (!row.status && options_.bad_samples == BadSamples::kRaise) {
      return tl::unexpected(error_of_sample(std::move(row.status.error())));
    }
    add_row(row, buffer->batch);
  }
  buffer->batch.data = buffer->memory.first(group.row_count * options_.sample_bytes);
  line_.release();
  return buffer;
}

void BatchAssembler::gather(RowGroup& group) {
  if (filling_ == nullptr) {
    filling_ = std::exchange(spare_, nullptr);
    begin_batch(filling_->batch, group.epoch);
  }
  gather_from(group, *filling_);
  filling_->batch.data = filling_->memory.first(filling_->batch.labels.size() * options_.sample_bytes);
  if (cursor_ < group.row_count) return;
  cursor_ = 0;
  put_back(*group.buffer);
  line_.release();
}

void BatchAssembler::gather_from(RowGroup& group, BatchBuffer& to) {
  Batch& batch = to.batch;
  std::size_t skipped = 0;
  for (; cursor_ < group.row_count && batch.labels.size() < options_.batch_size; ++cursor_) {
    Row& row = group.rows[cursor_];
    if (!row.status) {
      ++skipped;
      batch.next_position = row.raw.position + 1;
      add_note(row, batch);
      continue;
    }
    const std::size_t bytes = options_.sample_bytes;
    std::ranges::copy(group.buffer->memory.subspan(cursor_ * bytes, bytes),
                      to.memory.subspan(batch.labels.size() * bytes).begin());
    add_row(row, batch);
  }
  if (skipped > 0) skipped_.add(group.epoch, skipped);
}

// A batch that was copied together has used up a group at least, so there is a spare buffer again for the next one.
void BatchAssembler::put_back(BatchBuffer& buffer) {
  if (options_.bad_samples == BadSamples::kSkip && spare_ == nullptr) {
    spare_ = &buffer;
  } else {
    buffers_->put_back(buffer);
  }
}

void BatchAssembler::begin_batch(Batch& batch, std::uint64_t epoch) {
  batch.epoch = epoch;
  batch.labels.clear();
  batch.indices.clear();
  batch.states.clear();
  batch.shown.clear();
  batch.parts.clear();
  batch.notes.clear();
}

void BatchAssembler::drop_rows(Batch& batch) {
  batch.data = batch.data.first(0);
  batch.labels.clear();
  batch.indices.clear();
  batch.states.clear();
  batch.shown.clear();
  batch.parts.clear();
}

void BatchAssembler::add_row(Row& row, Batch& batch) const {
  batch.labels.push_back(row.raw.label);
  batch.indices.push_back(row.raw.index);
  batch.states.push_back(state_of(row));
  batch.shown.push_back(row.shown);
  if (options_.sample_bytes == 0) batch.parts.push_back(std::move(row.part));
  batch.next_position = row.raw.position + 1;
  if (state_of(row) != SampleState::kGood) add_note(row, batch);
}

void BatchAssembler::add_note(const Row& row, Batch& batch) const {
  const std::string reason =
      row.status ? line_.source().path(row.raw.index) + ": " + row.damage : row.status.error().message();
  batch.notes.push_back({row.raw.position, row.raw.index, state_of(row), reason});
}

bool BatchAssembler::has_begun(std::uint64_t epoch) const {
  return numbered_ ? number_epoch_ == epoch : next_number_ > 0;
}

void BatchAssembler::number(Batch& batch) {
  if (numbered_ && number_epoch_ != batch.epoch) next_number_ = 0;
  numbered_ = true;
  number_epoch_ = batch.epoch;
  batch.number = next_number_++;
}

}  // namespace headrace::decode
