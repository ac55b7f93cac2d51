// SPDX-License-Identifier: Apache-2.0
// Samples as items of the queues in item_queue.h and s3_fifo.h: links and marks lie in tables by sample index.
//
// Thread-safety: none; one owner. Ownership: the sizes outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headrace/cache/chunk.h"
#include "headrace/cache/keep/s3_fifo.h"

namespace headrace::cache {

class SampleItems {
 public:
  using Item = SampleIndex;
  static constexpr Item kNone = kNoSample;

  // Sizes in bytes, by sample.
  explicit SampleItems(std::span<const std::uint32_t> sizes)
      : sizes_(sizes), links_(sizes.size()), marks_(sizes.size()) {}

  [[nodiscard]] QueueLink<Item>& link(Item sample) { return links_[sample]; }
  [[nodiscard]] std::uint64_t bytes(Item sample) const { return sizes_[sample]; }
  [[nodiscard]] S3FifoMark& mark(Item sample) { return marks_[sample]; }
  [[nodiscard]] const S3FifoMark& mark(Item sample) const { return marks_[sample]; }
  [[nodiscard]] static bool may_go(Item /*sample*/) { return true; }
  [[nodiscard]] static std::uint64_t hash(Item sample) { return hash_of({.entry = sample, .chunk = 0}); }

 private:
  const std::span<const std::uint32_t> sizes_;
  std::vector<QueueLink<Item>> links_;
  std::vector<S3FifoMark> marks_;
};

}  // namespace headrace::cache
