// SPDX-License-Identifier: Apache-2.0
// Queues of samples, each sample in at most one of them, and the bytes in each queue: links by sample index, nothing is
// allocated after construction.
//
//   SampleQueues queues(sizes, 2);
//   queues.push_front(1, sample);
//   if (queues.bytes(1) > limit) queues.remove(queues.back(1));
//
// Thread-safety: none; one owner. Ownership: the sizes outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headrace/cache/catalog.h"

namespace headrace::cache {

class SampleQueues {
 public:
  static constexpr std::uint8_t kNowhere = UINT8_MAX;

  // Sizes in bytes, by sample.
  SampleQueues(std::span<const std::uint32_t> sizes, std::size_t queues)
      : sizes_(sizes), links_(sizes.size()), ends_(queues) {}

  // The queue that holds the sample, or kNowhere.
  [[nodiscard]] std::uint8_t queue_of(SampleIndex sample) const { return links_[sample].queue; }
  [[nodiscard]] std::uint64_t bytes(std::uint8_t queue) const { return ends_[queue].bytes; }
  [[nodiscard]] bool empty(std::uint8_t queue) const { return ends_[queue].back == kNoSample; }
  [[nodiscard]] SampleIndex back(std::uint8_t queue) const { return ends_[queue].back; }

  void push_front(std::uint8_t queue, SampleIndex sample) {
    Ends& ends = ends_[queue];
    links_[sample] = {.before = kNoSample, .after = ends.front, .queue = queue};
    (ends.front == kNoSample ? ends.back : links_[ends.front].before) = sample;
    ends.front = sample;
    ends.bytes += sizes_[sample];
  }

  void remove(SampleIndex sample) {
    Link& link = links_[sample];
    Ends& ends = ends_[link.queue];
    (link.before == kNoSample ? ends.front : links_[link.before].after) = link.after;
    (link.after == kNoSample ? ends.back : links_[link.after].before) = link.before;
    ends.bytes -= sizes_[sample];
    link = {};
  }

 private:
  struct Link {
    SampleIndex before = kNoSample;
    SampleIndex after = kNoSample;
    std::uint8_t queue = kNowhere;
  };
  struct Ends {
    SampleIndex front = kNoSample;
    SampleIndex back = kNoSample;
    std::uint64_t bytes = 0;
  };
  const std::span<const std::uint32_t> sizes_;
  std::vector<Link> links_;
  std::vector<Ends> ends_;
};

}  // namespace headrace::cache
