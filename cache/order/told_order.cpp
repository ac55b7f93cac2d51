// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/told_order.h"

#include <utility>

#include <fmt/core.h>

namespace headrace::cache {

using io::MutexLock;

ToldOrder::ToldOrder(const std::string& name, const WorkerLayout& workers) : spec_("told:" + name), workers_(workers) {}

std::uint64_t ToldOrder::add_epoch(std::vector<SampleIndex> samples) {
  auto added = std::make_shared<const std::vector<SampleIndex>>(std::move(samples));
  MutexLock lock(mutex_);
  before_ = std::exchange(latest_, std::move(added));
  return told_++;
}

ToldOrder::Samples ToldOrder::find(std::uint64_t epoch) const {
  MutexLock lock(mutex_);
  if (epoch + 1 == told_) return latest_;
  if (epoch + 2 == told_) return before_;
  return nullptr;
}

std::uint64_t ToldOrder::length(std::uint64_t epoch) const {
  const Samples samples = find(epoch);
  return samples ? samples->size() : 0;
}

Result<std::vector<SampleIndex>> ToldOrder::epoch(std::uint64_t epoch) const {
  const Samples samples = find(epoch);
  if (!samples) return io::make_error(io::ErrorCode::kNotFound, fmt::format("{}: not told", spec_));
  return std::vector<SampleIndex>(*samples);
}

}  // namespace headrace::cache
