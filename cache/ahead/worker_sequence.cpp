// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/ahead/worker_sequence.h"

#include <algorithm>

#include "headrace/io/result.h"

namespace headrace::cache {

WorkerSequence::WorkerSequence(std::uint64_t length, const WorkerLayout& layout)
    : length_(length),
      ranks_(std::max(layout.ranks, 1U)),
      workers_(std::max(layout.workers, 1U)),
      batch_(std::max<std::uint64_t>(layout.batch, 1)),
      group_(batch_ * workers_) {
  if (workers_ == 1) batch_ = group_ = ranks_;  // strictly in order
  HEADRACE_ASSERT(batch_ % ranks_ == 0);
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

std::uint64_t WorkerSequence::lane_of(std::uint64_t step) const {
  const std::uint64_t position = position_of(step);
  return position / batch_ % workers_ * ranks_ + position % ranks_;
}

// Each lane has a step among the next few, except in the last group, where some workers have no batch.
std::optional<std::uint64_t> WorkerSequence::first_in_lane(std::uint64_t step, std::uint64_t lane) const {
  while (step < length_ && lane_of(step) != lane) ++step;
  return step < length_ ? std::optional(step) : std::nullopt;
}

std::optional<std::uint64_t> WorkerSequence::next_in_lane(std::uint64_t step) const {
  const std::uint64_t position = position_of(step);
  const std::uint64_t batch = position / batch_;
  std::uint64_t next = position + ranks_;
  if (next / batch_ != batch) next = (batch + workers_) * batch_ + position % ranks_;
  return next < length_ ? std::optional(step_of(next)) : std::nullopt;
}

}  // namespace headrace::cache
