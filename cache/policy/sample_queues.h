// SPDX-License-Identifier: Apache-2.0
// Queues of samples, each sample in at most one of them: links by sample index, nothing is allocated after
// construction.
//
//   SampleQueues queues(sample_count, 2);
//   queues.push_front(1, sample);
//   SampleIndex oldest = queues.back(1);
//
// Thread-safety: none; one owner.
#pragma once

#include <cstdint>
#include <vector>

#include "headrace/cache/catalog.h"

namespace headrace::cache {

class SampleQueues {
 public:
  static constexpr std::uint8_t kNowhere = UINT8_MAX;

  SampleQueues(std::size_t samples, std::size_t queues) : links_(samples), ends_(queues) {}

  // The queue that holds the sample, or kNowhere.
  [[nodiscard]] std::uint8_t queue_of(SampleIndex sample) const { return links_[sample].queue; }
  [[nodiscard]] bool empty(std::uint8_t queue) const { return ends_[queue].back == kNoSample; }
  [[nodiscard]] SampleIndex back(std::uint8_t queue) const { return ends_[queue].back; }
  // The next one towards the front; kNoSample at the front.
  [[nodiscard]] SampleIndex before(SampleIndex sample) const { return links_[sample].before; }

  void push_front(std::uint8_t queue, SampleIndex sample) {
    Ends& ends = ends_[queue];
    links_[sample] = {.before = kNoSample, .after = ends.front, .queue = queue};
    (ends.front == kNoSample ? ends.back : links_[ends.front].before) = sample;
    ends.front = sample;
  }

  void remove(SampleIndex sample) {
    Link& link = links_[sample];
    Ends& ends = ends_[link.queue];
    (link.before == kNoSample ? ends.front : links_[link.before].after) = link.after;
    (link.after == kNoSample ? ends.back : links_[link.after].before) = link.before;
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
  };
  std::vector<Link> links_;
  std::vector<Ends> ends_;
};

}  // namespace headrace::cache
