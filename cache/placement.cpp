// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/internal/placement.h"

#include <algorithm>
#include <utility>

#include "headrace/cache/internal/chunk.h"

namespace headrace::cache {
namespace {

using io::MutexLock;

// Padding to whole batches repeats a few samples and dropping the last batch leaves a few out: an epoch is one that
// reads the same files as the next as long as they differ by less than one part in a hundred.
constexpr std::uint64_t kAlikeShare = 100;

struct EpochShape {
  std::vector<bool> reads;  // by sample
  std::uint64_t repeats = 0;
};

std::optional<EpochShape> shape_of(const Order& order, std::uint64_t epoch, std::size_t samples) {
  const Result<std::vector<SampleIndex>> drawn = order.epoch(epoch);
  if (!drawn) return std::nullopt;
  EpochShape shape{std::vector<bool>(samples, false)};
  for (const SampleIndex sample : *drawn) {
    shape.repeats += shape.reads[sample] ? 1 : 0;
    shape.reads[sample] = true;
  }
  return shape;
}

// Why MIN pays for this order; empty: it does not, because what was read is needed again one epoch later, like all
// else.
std::string reason_for_min(const Order& order, std::uint64_t epoch, std::size_t samples) {
  const std::optional<EpochShape> now = shape_of(order, epoch, samples);
  const std::optional<EpochShape> next = shape_of(order, epoch + 1, samples);
  if (!now || !next) return "";
  std::uint64_t reads = now->repeats;
  std::uint64_t differ = 0;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    reads += now->reads[sample] ? 1 : 0;
    differ += now->reads[sample] != next->reads[sample] ? 1 : 0;
  }
  if (differ * kAlikeShare > reads) return "each epoch reads other files";
  if (now->repeats * kAlikeShare > reads) return "an epoch reads files again";
  return "";
}

}  // namespace

std::vector<std::uint32_t> record_footprints(const Catalog& catalog) {
  std::vector<std::uint32_t> sizes(catalog.sample_count());
  for (SampleIndex sample = 0; sample < sizes.size(); ++sample) {
    const std::uint64_t file_bytes = catalog.size_bytes(catalog.sample_entry(sample));
    std::uint64_t bytes = 0;
    for (std::uint32_t chunk = 0; chunk < chunk_count(file_bytes); ++chunk) {
      bytes += footprint_bytes(chunk_range(file_bytes, chunk).length);
    }
    sizes[sample] = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, UINT32_MAX));
  }
  return sizes;
}

Placement::Placement(const Catalog& catalog, std::vector<std::uint64_t> tier_bytes)
    : catalog_(catalog), tier_bytes_(std::move(tier_bytes)) {}

Placement::Evictions Placement::follow(const Order& order, std::uint64_t epoch, const IsHeld& is_held) {
  const std::string reason = tier_bytes_.empty() ? "" : reason_for_min(order, epoch, catalog_.sample_count());
  MutexLock lock(mutex_);
  orders_ += 1;
  if (orders_ > 1) {
    stop_min();
    why_ = "several orders are read at once";
    return {};
  }
  why_ = reason.empty() ? "each epoch reads the same files" : reason;
  if (reason.empty()) return {};
  start_min(order, epoch);
  for (SampleIndex sample = 0; sample < catalog_.sample_count(); ++sample) {
    for (std::size_t tier = 0; tier < tier_bytes_.size(); ++tier) {
      if (!is_held(tier, sample)) continue;
      refresh(tier, sample);
      if (!(*stack_)[tier].holds(sample)) evictions_.push_back({tier, sample});
    }
  }
  return std::exchange(evictions_, {});
}

void Placement::start_min(const Order& order, std::uint64_t epoch) {
  if (sizes_.empty()) sizes_ = record_footprints(catalog_);
  uses_ = std::make_unique<NextUses>(order, sizes_.size(), epoch);
  stack_ = std::make_unique<PolicyStack>();
  for (std::size_t tier = 0; tier < tier_bytes_.size(); ++tier) {
    stack_->add(make_policy(
        PolicyKind::kMin,
        {.capacity_bytes = tier_bytes_[tier], .sizes = sizes_, .on_evict = [this, tier](SampleIndex sample) {
           evictions_.push_back({tier, sample});
         }}));
  }
  evicts_.store(true);
}

void Placement::stop_min() {
  evicts_.store(false);
  stack_.reset();
  uses_.reset();
}

// As if it were read: it is held, and goes, by its upcoming use.
void Placement::refresh(std::size_t tier, SampleIndex sample) {
  static_cast<void>((*stack_)[tier].read({.sample = sample, .next_use = uses_->upcoming(sample)}));
}

// What was read from memory meanwhile has uses behind it that no fetch has taken.
Placement::Evictions Placement::enter(std::uint64_t epoch) {
  MutexLock lock(mutex_);
  if (stack_ == nullptr) return {};
  uses_->enter(epoch);
  for (std::size_t tier = 0; tier < stack_->size(); ++tier) {
    for (SampleIndex sample = 0; sample < sizes_.size(); ++sample) {
      if ((*stack_)[tier].holds(sample)) refresh(tier, sample);
    }
  }
  return std::exchange(evictions_, {});
}

void Placement::unfollow() {
  MutexLock lock(mutex_);
  orders_ -= 1;
  stop_min();
  why_ = orders_ > 0 ? "several orders were read at once" : "no order known";
}

Placement::Evictions Placement::on_read(SampleIndex sample) {
  MutexLock lock(mutex_);
  if (stack_ == nullptr) return {};
  stack_->read({.sample = sample, .next_use = uses_->take(sample)});
  return std::exchange(evictions_, {});
}

Placement::Evictions Placement::on_offer(SampleIndex sample) {
  MutexLock lock(mutex_);
  for (std::size_t tier = 0; stack_ != nullptr && tier < stack_->size(); ++tier) {
    refresh(tier, sample);
    if ((*stack_)[tier].holds(sample)) break;
  }
  return std::exchange(evictions_, {});
}

bool Placement::wants(std::size_t tier, std::optional<SampleIndex> sample) const {
  if (!evicts()) return true;
  MutexLock lock(mutex_);
  return stack_ == nullptr || (sample && (*stack_)[tier].holds(*sample));
}

std::string Placement::describe() const {
  MutexLock lock(mutex_);
  return (stack_ != nullptr ? "min: " : "never-evict: ") + why_;
}

}  // namespace headrace::cache
