// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/held_copies.h"

#include <limits>

#include "headrace/cache/chunk.h"

namespace headrace::fuse {
using cache::SampleIndex;

namespace {

// A copy makes way for one that is smaller by more than this part of it: among nearly equal ones there is nothing to
// gain, whatever their number.
constexpr std::uint64_t kSmallerShare = 8;
// A few samples that are too large do not matter: they are what is read at the source again.
constexpr std::uint64_t kTooLargeShare = 32;

// Larger files are fetched in pieces, of which the store keeps no copy.
bool is_too_large(std::uint64_t file_bytes) {
  return file_bytes > cache::kChunkBytes;
}

}  // namespace

HeldCopies::HeldCopies(const cache::Catalog& catalog) : catalog_(catalog), bytes_of_all_(count_bytes_of_all()) {}

std::uint64_t HeldCopies::count_bytes_of_all() const {
  std::uint64_t bytes = 0;
  std::uint64_t left_out = 0;
  for (SampleIndex sample = 0; sample < catalog_.sample_count(); ++sample) {
    const auto [copy_bytes, ignored] = key_of(sample);
    (is_too_large(catalog_.size_bytes(catalog_.sample_entry(sample))) ? left_out : bytes) += copy_bytes;
  }
  return left_out > (bytes + left_out) / kTooLargeShare ? std::numeric_limits<std::uint64_t>::max() : bytes;
}

HeldCopies::Key HeldCopies::key_of(SampleIndex sample) const {
  return {cache::footprint_bytes(catalog_.size_bytes(catalog_.sample_entry(sample))), sample};
}

bool HeldCopies::add(SampleIndex sample, std::uint64_t limit_bytes) {
  if (contains(sample)) return true;
  if (is_too_large(catalog_.size_bytes(catalog_.sample_entry(sample)))) return false;
  const Key key = key_of(sample);
  const std::uint64_t largest = by_size_.empty() ? 0 : by_size_.rbegin()->first;
  const bool has_room = bytes_ + key.first <= limit_bytes;
  if (!has_room && key.first >= largest - largest / kSmallerShare) return false;
  by_size_.insert(key);
  bytes_ += key.first;
  return true;
}

void HeldCopies::add_lost(SampleIndex sample, std::uint64_t limit_bytes) {
  if (!contains(sample) && add(sample, limit_bytes)) to_fetch_.push_back(sample);
}

std::optional<SampleIndex> HeldCopies::next_to_fetch() {
  while (!to_fetch_.empty()) {
    const SampleIndex sample = to_fetch_.front();
    to_fetch_.pop_front();
    if (contains(sample)) return sample;  // else it has made way since
  }
  return std::nullopt;
}

std::optional<SampleIndex> HeldCopies::next_to_drop(std::uint64_t limit_bytes) {
  if (bytes_ <= limit_bytes) return std::nullopt;
  const SampleIndex largest = by_size_.rbegin()->second;
  drop(largest);
  return largest;
}

void HeldCopies::drop(SampleIndex sample) {
  if (by_size_.empty()) return;
  const Key key = key_of(sample);
  if (by_size_.erase(key) > 0) bytes_ -= key.first;
}

}  // namespace headrace::fuse
