// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/internal/batch_assembler.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace headrace::decode {

namespace {

SampleState state_of(const Row& row) {
  if (!row.status) return SampleState::kBad;
  return row.damage.empty() ? SampleState::kGood : SampleState::kRepaired;
}

}  // namespace

BatchAssembler::BatchAssembler(DecodeLine& line, SkippedRows& skipped, const AssemblyOptions& options)
    : line_(line), skipped_(skipped), options_(options), next_number_(options.first_batch) {
  batch_.labels.reserve(options.batch_size);
  batch_.indices.reserve(options.batch_size);
  batch_.states.reserve(options.batch_size);
}

Result<const Batch*> BatchAssembler::next() {
  for (;;) {
    if (std::exchange(holds_front_, false)) line_.release();
    const RowGroup* group = line_.front();
    if (group == nullptr) return nullptr;
    if (is_batch(*group)) {
      HEADRACE_TRY_DO(take(*group));
    } else {
      gather();
    }
    const std::size_t rows = batch_.labels.size();
    if (rows == options_.batch_size || (rows > 0 && !options_.drop_last)) break;
  }
  finish_batch();
  return &batch_;
}

// Whether the group, as it lies there, is the next batch.
bool BatchAssembler::is_batch(const RowGroup& group) const {
  if (options_.bad_samples != BadSamples::kSkip) return true;
  return cursor_ == 0 && group.row_count == options_.batch_size &&
         std::ranges::all_of(group.rows, [](const Row& row) { return row.status.has_value(); });
}

Status BatchAssembler::take(const RowGroup& group) {
  begin_batch(group.epoch, memory_of(group).first(group.row_count * options_.sample_bytes));
  holds_front_ = true;
  for (std::size_t i = 0; i < group.row_count; ++i) {
    const Row& row = group.rows[i];
    if (!row.status && options_.bad_samples == BadSamples::kRaise) return row.status;
    add_row(row);
  }
  return {};
}

// Fills the spare memory with the good rows that follow, as far as the epoch goes.
void BatchAssembler::gather() {
  const RowGroup* group = line_.front();
  begin_batch(group->epoch, options_.memory.back());
  while (group != nullptr && group->epoch == batch_.epoch && batch_.labels.size() < options_.batch_size) {
    gather_from(*group);
    if (cursor_ == group->row_count) {
      cursor_ = 0;
      line_.release();
    }
    group = batch_.labels.size() < options_.batch_size ? line_.front() : nullptr;
  }
  batch_.data = batch_.data.first(batch_.labels.size() * options_.sample_bytes);
}

void BatchAssembler::gather_from(const RowGroup& group) {
  const std::span<std::byte> from = memory_of(group);
  std::size_t skipped = 0;
  for (; cursor_ < group.row_count && batch_.labels.size() < options_.batch_size; ++cursor_) {
    const Row& row = group.rows[cursor_];
    if (!row.status) {
      ++skipped;
      batch_.next_position = row.raw.position + 1;
      add_note(row);
      continue;
    }
    const std::size_t to = batch_.labels.size() * options_.sample_bytes;
    std::memcpy(&batch_.data[to], &from[cursor_ * options_.sample_bytes], options_.sample_bytes);
    add_row(row);
  }
  if (skipped > 0) skipped_.add(group.epoch, skipped);
}

std::span<std::byte> BatchAssembler::memory_of(const RowGroup& group) const {
  return options_.memory[line_.place_of(group)];
}

void BatchAssembler::begin_batch(std::uint64_t epoch, std::span<std::byte> data) {
  batch_.epoch = epoch;
  batch_.data = data;
  batch_.labels.clear();
  batch_.indices.clear();
  batch_.states.clear();
  batch_.notes.clear();
}

void BatchAssembler::add_row(const Row& row) {
  batch_.labels.push_back(row.raw.label);
  batch_.indices.push_back(row.raw.index);
  batch_.states.push_back(state_of(row));
  batch_.next_position = row.raw.position + 1;
  if (state_of(row) != SampleState::kGood) add_note(row);
}

void BatchAssembler::add_note(const Row& row) {
  const std::string reason =
      row.status ? line_.source().path(row.raw.index) + ": " + row.damage : row.status.error().message();
  batch_.notes.push_back({row.raw.position, row.raw.index, state_of(row), reason});
}

void BatchAssembler::finish_batch() {
  if (numbered_ && number_epoch_ != batch_.epoch) next_number_ = 0;
  numbered_ = true;
  number_epoch_ = batch_.epoch;
  batch_.number = next_number_++;
}

}  // namespace headrace::decode
