// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/page_cache_account.h"

#include <algorithm>
#include <utility>

#include "headrace/cache/chunk.h"
#include "headrace/cache/sample_sizes.h"

namespace headrace::fuse {
using cache::SampleIndex;

namespace {

// Room for samples that are open but not read yet: released, still in the page cache. What they take, the next epoch
// lacks; 32 more samples arrive before one that was opened has to go.
constexpr std::uint64_t kGraceShare = 32;
constexpr std::uint64_t kGraceBytesMax = 64 << 20;
constexpr std::uint64_t kGraceSamplesMin = 32;
constexpr std::uint64_t kGraceShareMost = 4;
// Of large ones fewer are opened while one is read, and each that is not held costs more.
constexpr std::uint64_t kGraceLargeMin = 4;

std::uint64_t count_pushable(const PageCacheAccount& account) {
  std::uint64_t count = 0;
  for (SampleIndex sample = 0; sample < account.sizes().size(); ++sample)
    count += account.can_be_pushed(sample) ? 1 : 0;
  return count;
}

}  // namespace

PageCacheAccount::PageCacheAccount(const cache::Catalog& catalog, std::span<SamplePages> pages)
    : catalog_(&catalog),
      pages_(pages),
      sizes_(cache::sizes_in_pages(catalog, cache::SampleSize::kPagesInPageCache)),
      total_bytes_(sizes_.total()),
      pushable_count_(count_pushable(*this)) {
  for (SampleIndex sample = 0; sample < sizes_.size(); ++sample) {
    pages_[sample].released = false;
    const bool is_pinned = std::exchange(pages_[sample].pinned, false);
    if (pages_[sample].held) hold(sample);
    if (is_pinned) pin(sample);
    // Of a large file nobody knows which part it was: all of it is taken for read in, until it is evicted.
    if (std::exchange(pages_[sample].read_in, false)) on_read_in(sample, {0, sizes_[sample]});
  }
}

PageCacheAccount::PageCacheAccount(cache::SampleSizes sizes, std::span<SamplePages> pages)
    : catalog_(nullptr),
      pages_(pages),
      sizes_(std::move(sizes)),
      total_bytes_(sizes_.total()),
      pushable_count_(sizes_.size()) {}

bool PageCacheAccount::can_be_pushed(SampleIndex sample) const {
  return catalog_ == nullptr || catalog_->is_file(catalog_->sample_entry(sample));
}

bool PageCacheAccount::is_read_in_parts(SampleIndex sample) const {
  return catalog_ != nullptr && cache::is_chunked(sizes_[sample]);
}

std::uint64_t PageCacheAccount::wanted_bytes_max() const {
  if (budget_bytes_ >= total_bytes_) return budget_bytes_;
  const std::uint64_t mean_bytes = total_bytes_ / sizes_.size();
  const std::uint64_t least = mean_bytes * (mean_bytes < cache::kLargeSampleBytes ? kGraceSamplesMin : kGraceLargeMin);
  return budget_bytes_ -
         std::min({std::max(budget_bytes_ / kGraceShare, least), budget_bytes_ / kGraceShareMost, kGraceBytesMax});
}

bool PageCacheAccount::place(SampleIndex sample) {
  if (!pages_[sample].held && is_over(sizes_[sample])) return false;
  forget_read_in(sample);
  if (!pages_[sample].held) hold(sample);
  return true;
}

bool PageCacheAccount::take_stale(SampleIndex sample) {
  return std::exchange(pages_[sample].stale, false);
}

void PageCacheAccount::hold(SampleIndex sample) {
  pages_[sample].held = true;
  held_bytes_ += sizes_[sample];
  ++held_samples_;
  if (pages_[sample].pinned) ++pinned_held_samples_;
  if (pages_[sample].released) queue_for_eviction(sample);  // the plan let go of it while it was on its way
}

void PageCacheAccount::fail(SampleIndex sample) {
  if (pages_[sample].held) forget(sample);
}

void PageCacheAccount::forget(SampleIndex sample) {
  want(sample);
  pages_[sample].held = false;
  held_bytes_ -= sizes_[sample];
  --held_samples_;
  if (pages_[sample].pinned) --pinned_held_samples_;
}

void PageCacheAccount::drop(SampleIndex sample) {
  fail(sample);
  forget_read_in(sample);
  pages_[sample].stale = true;
}

void PageCacheAccount::want(SampleIndex sample) {
  if (std::exchange(pages_[sample].released, false) && pages_[sample].held) released_bytes_ -= sizes_[sample];
}

void PageCacheAccount::release(SampleIndex sample) {
  if (keeps(sample)) return;
  if (!std::exchange(pages_[sample].released, true) && pages_[sample].held) queue_for_eviction(sample);
}

void PageCacheAccount::release_all() {
  for (SampleIndex sample = 0; sample < sizes_.size(); ++sample) {
    if (pages_[sample].held) release(sample);
  }
}

void PageCacheAccount::pin(SampleIndex sample) {
  if (std::exchange(pages_[sample].pinned, true)) return;
  pinned_bytes_ += sizes_[sample];
  ++pinned_samples_;
  if (pages_[sample].held) ++pinned_held_samples_;
  if (keeps_pins_) want(sample);
}

void PageCacheAccount::unpin(SampleIndex sample) {
  if (!std::exchange(pages_[sample].pinned, false)) return;
  pinned_bytes_ -= sizes_[sample];
  --pinned_samples_;
  if (pages_[sample].held) --pinned_held_samples_;
  release(sample);
}

void PageCacheAccount::keep_pins(bool keep) {
  if (std::exchange(keeps_pins_, keep) == keep || pinned_samples_ == 0) return;
  for (SampleIndex sample = 0; sample < sizes_.size(); ++sample) {
    if (pages_[sample].pinned) keep ? want(sample) : release(sample);
  }
}

void PageCacheAccount::queue_for_eviction(SampleIndex sample) {
  released_.push_back(sample);
  released_bytes_ += sizes_[sample];
}

void PageCacheAccount::on_read_in(SampleIndex sample, const PageRange& range) {
  if (is_read_in_parts(sample)) {
    ranges_.add(sample, range);
    pages_[sample].read_in = true;
  } else if (range.offset == 0 || catalog_ == nullptr) {
    hold_read_in(sample);
  }
}

void PageCacheAccount::hold_read_in(SampleIndex sample) {
  if (std::exchange(pages_[sample].read_in, true)) return;
  read_in_bytes_ += sizes_[sample];
  read_in_.push_back(sample);
}

void PageCacheAccount::forget_read_in(SampleIndex sample) {
  if (!std::exchange(pages_[sample].read_in, false)) return;
  if (!is_read_in_parts(sample)) {
    read_in_bytes_ -= sizes_[sample];
  } else {
    ranges_.forget(sample);
  }
}

std::optional<ReadInRanges::Slot> PageCacheAccount::next_range_victim(std::uint64_t bytes) {
  if (!must_evict_ranges(bytes)) return std::nullopt;
  const ReadInRanges::Slot oldest = ranges_.take_oldest();
  pages_[oldest.sample].read_in = ranges_.contains(oldest.sample);
  pages_[oldest.sample].stale = true;  // the attributes go with any part of the file
  return oldest;
}

std::optional<SampleIndex> PageCacheAccount::next_victim(std::uint64_t bytes) {
  if (const std::optional<SampleIndex> read_in = next_read_in_victim(bytes)) return read_in;
  while (is_over(bytes) && !released_.empty()) {
    const SampleIndex oldest = released_.front();
    released_.pop_front();
    if (!pages_[oldest].held || !pages_[oldest].released) continue;  // gone, or wanted again since
    forget(oldest);
    return evict(oldest);
  }
  return std::nullopt;
}

std::optional<SampleIndex> PageCacheAccount::next_read_in_victim(std::uint64_t bytes) {
  while (must_evict_read_in(bytes)) {
    const SampleIndex oldest = read_in_.front();
    read_in_.pop_front();
    if (!pages_[oldest].read_in) continue;  // pushed since
    forget_read_in(oldest);
    return evict(oldest);
  }
  return std::nullopt;
}

SampleIndex PageCacheAccount::evict(SampleIndex sample) {
  pages_[sample].stale = true;
  ++evicted_samples_;
  return sample;
}

}  // namespace headrace::fuse
