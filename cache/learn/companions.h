// SPDX-License-Identifier: Apache-2.0
// Parts whose files are opened together, as images/ and masks/ are: number k of the one with number k of the other.
//
//   Companions companions(ranges);
//   companions.on_open(sample);
//   if (const auto& together = companions.together()) ... together->leader, together->others ...
//
// Then one of them leads: its order is that of all. Parts of the same number of files may be companions. Those that are
// read independently of each other have a file of the same number opened within a few dozen opens by accident only.
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headrace/cache/order_learner.h"

namespace headrace::cache {

class Companions {
 public:
  // Which of the parts may be companions is told by their sizes: those of the largest ones that several have.
  explicit Companions(std::span<const SampleRange> parts);

  struct Together {
    SampleRange leader;               // is opened first
    std::vector<SampleRange> others;  // of the same size
    friend bool operator==(const Together&, const Together&) = default;
    [[nodiscard]] bool contains(SampleIndex sample) const;
    // What of one of the others is opened with a sample of the leader.
    [[nodiscard]] SampleIndex companion(SampleIndex sample, const SampleRange& other) const {
      return static_cast<SampleIndex>(other.first + (sample - leader.first));
    }
    // A sample of the leader, and those that are opened with it.
    void append(SampleIndex sample, std::vector<SampleIndex>& samples) const;
  };
  // None is found any more.
  void give_up();
  // True: together() is another one now.
  bool on_open(SampleIndex sample);
  [[nodiscard]] const std::optional<Together>& together() const { return together_; }

 private:
  struct Opened {
    std::size_t part = SIZE_MAX;
    std::uint64_t number = 0;
  };
  void note(const Opened& opened);
  [[nodiscard]] std::optional<Together> told_by_opens() const;

  std::vector<SampleRange> parts_;  // of equal size
  std::vector<Opened> recent_;      // a ring
  std::size_t recent_at_ = 0;
  std::uint64_t history_ = 0;         // of the last 64 opens in these parts: 1: its number was opened in another one
  std::vector<std::uint64_t> first_;  // by part: since they were apart, how many were opened before a companion
  std::vector<std::uint64_t> later_;  // and behind one
  std::optional<Together> together_;
};

// The leader's order, told in the data set's indices, with the companions of each sample behind it.
[[nodiscard]] std::unique_ptr<Order> order_together(std::shared_ptr<const Order> leader, Companions::Together together);

}  // namespace headrace::cache
