// SPDX-License-Identifier: Apache-2.0
// When each sample is needed next, and after that: the uses of the coming epochs, told from the order.
//
//   NextUses uses(draw_uses(order, sample_count, epoch));
//   std::uint64_t later = uses.take(sample);   // it is read now; when again?
//   uses.enter(draw_uses(order, sample_count, epoch + 1, uses.ahead().get()));
//
// Times are positions counted through all epochs; they rise, also over a jump to another epoch.
//
// Memory: 12 bytes per sample, and 8 per position of the epochs ahead; while the next epoch is drawn, two thirds of
// that once more. Thread-safety: of NextUses none, one owner. UsesAhead never changes: it is drawn while others take
// uses.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "headrace/cache/order.h"

namespace headrace::cache {

struct UsesAhead {
  struct Epoch {
    std::uint64_t number = 0;
    std::shared_ptr<const std::vector<SampleIndex>> samples;
  };
  std::deque<Epoch> epochs;          // the current one and those after it
  std::uint64_t base = 0;            // when the current one begins
  std::vector<std::uint32_t> first;  // by sample: where its uses begin in `uses`; one more at the end
  std::vector<std::uint32_t> uses;   // rising for each sample, counted from base

  [[nodiscard]] std::uint64_t sample_count() const { return first.size() - 1; }
  // When an epoch begins: behind all that was drawn, if it was not.
  [[nodiscard]] std::uint64_t begin_of(std::uint64_t epoch) const;
};

// Uses of earlier epochs than `epoch` are past, whether they were taken or not. `before`, if not null, is what was
// drawn of the same order: it is not drawn again, and the times go on from there. O(positions ahead).
[[nodiscard]] std::shared_ptr<const UsesAhead> draw_uses(const Order& order, std::uint64_t sample_count,
                                                         std::uint64_t epoch, const UsesAhead* before = nullptr);

class NextUses {
 public:
  explicit NextUses(std::shared_ptr<const UsesAhead> ahead);

  // Uses before this time are past, whether they were taken or not: for those who take some while the next epoch is
  // drawn.
  void pass_to(std::uint64_t time);
  // `ahead` was drawn with what ahead() is.
  void enter(std::shared_ptr<const UsesAhead> ahead);
  [[nodiscard]] const std::shared_ptr<const UsesAhead>& ahead() const { return ahead_; }
  // The next use of the sample is now; the one after it. kNeverUsed: not within the epochs ahead.
  [[nodiscard]] std::uint64_t take(SampleIndex sample);
  [[nodiscard]] std::uint64_t upcoming(SampleIndex sample) const;
  // Behind the last use taken, or where the epoch begins.
  [[nodiscard]] std::uint64_t now() const { return now_; }

 private:
  // From the first one that is not past, to the end.
  [[nodiscard]] std::span<const std::uint32_t> upcoming_uses(SampleIndex sample) const;

  std::shared_ptr<const UsesAhead> ahead_;
  std::uint64_t now_ = 0;
  std::uint64_t past_ = 0;            // uses before this time are past
  std::vector<std::uint64_t> taken_;  // by sample: uses before this time were taken
};

}  // namespace headrace::cache
