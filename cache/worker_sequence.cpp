// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/internal/worker_sequence.h"

#include <algorithm>

namespace headrace::cache {

WorkerSequence::WorkerSequence(std::uint64_t length, const WorkerLayout& layout)
    : length_(length), batch_(std::max(layout.batch, 1U)), group_(batch_ * std::max(layout.workers, 1U)) {
  if (layout.workers <= 1) batch_ = group_ = 1;  // strictly in order
}

std::uint64_t WorkerSequence::group_begin(std::uint64_t position) const {
  return position / group_ * group_;
}

std::uint64_t WorkerSequence::group_end(std::uint64_t position) const {
  return std::min(group_begin(position) + group_, length_);
}

WorkerSequence::Group WorkerSequence::group_at(std::uint64_t step_or_position) const {
  const std::uint64_t first = group_begin(step_or_position);
  const std::uint64_t size = group_end(step_or_position) - first;
  const std::uint64_t batches = (size + batch_ - 1) / batch_;
  return {.first = first, .batches = batches, .last_batch = size - (batches - 1) * batch_};
}

std::uint64_t WorkerSequence::position_of(std::uint64_t step) const {
  const Group group = group_at(step);
  const std::uint64_t local = step - group.first;
  const std::uint64_t in_all_batches = group.last_batch * group.batches;
  if (local < in_all_batches) return group.first + local % group.batches * batch_ + local / group.batches;
  const std::uint64_t rest = local - in_all_batches;  // the last batch has ended, the others go on
  const std::uint64_t others = group.batches - 1;
  return group.first + rest % others * batch_ + group.last_batch + rest / others;
}

std::uint64_t WorkerSequence::step_of(std::uint64_t position) const {
  const Group group = group_at(position);
  const std::uint64_t batch = (position - group.first) / batch_;
  const std::uint64_t item = (position - group.first) % batch_;
  if (item < group.last_batch) return group.first + item * group.batches + batch;
  return group.first + group.last_batch * group.batches + (item - group.last_batch) * (group.batches - 1) + batch;
}

}  // namespace headrace::cache
