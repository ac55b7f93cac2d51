// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/internal/batch_assembler.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace headrace::decode {

BatchAssembler::BatchAssembler(SlotRing<BatchSlot>& ring, SkippedRows& skipped, const AssemblyOptions& options)
    : ring_(ring), skipped_(skipped), options_(options), next_number_(options.first_batch) {
  batch_.labels.reserve(options.batch_size);
  batch_.indices.reserve(options.batch_size);
  batch_.states.reserve(options.batch_size);
}

Result<const Batch*> BatchAssembler::next() {
  for (;;) {
    if (std::exchange(holds_front_, false)) ring_.release();
    BatchSlot* slot = ring_.front();
    if (slot == nullptr) return nullptr;
    if (is_batch(*slot)) {
      if (Status status = take_slot(*slot); !status) return tl::unexpected(std::move(status.error()));
    } else {
      gather();
    }
    const std::size_t rows = batch_.labels.size();
    if (rows == options_.batch_size || (rows > 0 && !options_.drop_last)) break;
  }
  finish_batch();
  return &batch_;
}

// Whether the slot, as it lies there, is the next batch.
bool BatchAssembler::is_batch(const BatchSlot& slot) const {
  if (options_.bad_samples != BadSamples::kSkip) return true;
  return cursor_ == 0 && slot.row_count == options_.batch_size &&
         std::ranges::none_of(slot.rows, [](const BatchRow& row) { return row.state == SampleState::kBad; });
}

Status BatchAssembler::take_slot(BatchSlot& slot) {
  begin_batch(slot.epoch, slot.memory.first(slot.row_count * options_.sample_bytes));
  holds_front_ = true;
  for (std::size_t i = 0; i < slot.row_count; ++i) {
    const BatchRow& row = slot.rows[i];
    if (row.state == SampleState::kBad && options_.bad_samples == BadSamples::kRaise) return tl::unexpected(row.error);
    add_row(row);
  }
  return {};
}

// Fills the spare batch with the good rows that follow, as far as the epoch goes.
void BatchAssembler::gather() {
  BatchSlot* slot = ring_.front();
  begin_batch(slot->epoch, options_.spare);
  while (slot != nullptr && slot->epoch == batch_.epoch && batch_.labels.size() < options_.batch_size) {
    gather_from(*slot);
    if (cursor_ == slot->row_count) {
      cursor_ = 0;
      ring_.release();
    }
    slot = batch_.labels.size() < options_.batch_size ? ring_.front() : nullptr;
  }
  batch_.data = options_.spare.first(batch_.labels.size() * options_.sample_bytes);
}

void BatchAssembler::gather_from(BatchSlot& slot) {
  std::size_t skipped = 0;
  for (; cursor_ < slot.row_count && batch_.labels.size() < options_.batch_size; ++cursor_) {
    const BatchRow& row = slot.rows[cursor_];
    if (row.state == SampleState::kBad) {
      ++skipped;
      batch_.next_position = row.raw.position + 1;
      batch_.notes.push_back({row.raw.position, row.raw.index, row.state, row.error.message()});
      continue;
    }
    const std::size_t to = batch_.labels.size() * options_.sample_bytes;
    std::memcpy(&batch_.data[to], &slot.memory[cursor_ * options_.sample_bytes], options_.sample_bytes);
    add_row(row);
  }
  if (skipped > 0) skipped_.add(slot.epoch, skipped);
}

void BatchAssembler::begin_batch(std::uint64_t epoch, std::span<std::byte> data) {
  batch_.epoch = epoch;
  batch_.data = data;
  batch_.labels.clear();
  batch_.indices.clear();
  batch_.states.clear();
  batch_.notes.clear();
}

void BatchAssembler::add_row(const BatchRow& row) {
  batch_.labels.push_back(row.raw.label);
  batch_.indices.push_back(row.raw.index);
  batch_.states.push_back(row.state);
  batch_.next_position = row.raw.position + 1;
  if (row.state == SampleState::kGood) return;
  const std::string reason = row.state == SampleState::kBad ? row.error.message() : row.damage;
  batch_.notes.push_back({row.raw.position, row.raw.index, row.state, reason});
}

void BatchAssembler::finish_batch() {
  if (numbered_ && number_epoch_ != batch_.epoch) next_number_ = 0;
  numbered_ = true;
  number_epoch_ = batch_.epoch;
  batch_.number = next_number_++;
}

}  // namespace headrace::decode
