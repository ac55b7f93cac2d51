// SPDX-License-Identifier: Apache-2.0
// Figure 4 of "ARC: a self-tuning, low overhead replacement cache" (Megiddo and Modha, FAST 2003), with bytes for
// pages.
#include <algorithm>

#include "headrace/cache/keep/sample_queues.h"
#include "headrace/cache/policy.h"

namespace headrace::cache {
namespace {

// The paper's lists: T1 and T2 are held, B1 and B2 remember what was evicted from them.
constexpr std::uint8_t kOnce = 0;
constexpr std::uint8_t kOften = 1;
constexpr std::uint8_t kGhostOnce = 2;
constexpr std::uint8_t kGhostOften = 3;

class ArcPolicy final : public Policy {
 public:
  explicit ArcPolicy(const PolicyOptions& options) : Policy(options), queues_(options.sizes, 4) {}

  [[nodiscard]] bool holds(SampleIndex sample) const override {
    const std::uint8_t where = queues_.queue_of(sample);
    return where == kOnce || where == kOften;
  }

  bool read(const Access& access) override {
    const SampleIndex sample = access.sample;
    const std::uint8_t where = queues_.queue_of(sample);
    if (holds(sample)) {
      queues_.remove(sample);
      queues_.push_front(kOften, sample);
      return true;
    }
    if (!can_ever_fit(sample)) return false;
    if (where == SampleQueues::kNowhere) {
      make_room_for_new(sample);
    } else {
      adapt(where, sample);
      queues_.remove(sample);
      while (!fits(sample)) replace(where == kGhostOften);
    }
    take_in(sample);
    queues_.push_front(where == SampleQueues::kNowhere ? kOnce : kOften, sample);
    return false;
  }

 private:
  void drop_ghost(std::uint8_t queue) { queues_.remove(queues_.back(queue)); }

  // A ghost that is read again shows which side deserved more room.
  void adapt(std::uint8_t where, SampleIndex sample) {
    const bool recency = where == kGhostOnce;
    const std::uint64_t own = std::max<std::uint64_t>(queues_.bytes(recency ? kGhostOnce : kGhostOften), 1);
    const std::uint64_t other = queues_.bytes(recency ? kGhostOften : kGhostOnce);
    const std::uint64_t step = size_of(sample) * std::max<std::uint64_t>(other / own, 1);
    once_target_ =
        recency ? std::min(once_target_ + step, capacity_bytes()) : once_target_ - std::min(once_target_, step);
  }

  // Case IV of the paper.
  void make_room_for_new(SampleIndex sample) {
    const std::uint64_t size = size_of(sample);
    while (queues_.bytes(kOnce) + queues_.bytes(kGhostOnce) + size > capacity_bytes() && !queues_.empty(kGhostOnce)) {
      drop_ghost(kGhostOnce);
    }
    const auto all = [&] {
      return queues_.bytes(kOnce) + queues_.bytes(kOften) + queues_.bytes(kGhostOnce) + queues_.bytes(kGhostOften);
    };
    while (all() + size > 2 * capacity_bytes() && !queues_.empty(kGhostOften)) drop_ghost(kGhostOften);
    while (!fits(sample)) {
      // T1 alone fills the cache: its oldest goes without leaving a ghost.
      if (queues_.bytes(kOnce) + size > capacity_bytes() && queues_.empty(kOften)) {
        const SampleIndex oldest = queues_.back(kOnce);
        queues_.remove(oldest);
        let_go(oldest);
      } else {
        replace(false);
      }
    }
  }

  void replace(bool for_ghost_of_often) {
    const bool over_target =
        queues_.bytes(kOnce) > once_target_ || (for_ghost_of_often && queues_.bytes(kOnce) == once_target_);
    const bool from_once = !queues_.empty(kOnce) && (over_target || queues_.empty(kOften));
    const std::uint8_t from = from_once ? kOnce : kOften;
    const SampleIndex oldest = queues_.back(from);
    queues_.remove(oldest);
    let_go(oldest);
    queues_.push_front(from_once ? kGhostOnce : kGhostOften, oldest);
  }

  SampleQueues queues_;
  std::uint64_t once_target_ = 0;  // the paper's p: bytes that T1 should have
};

}  // namespace

std::unique_ptr<Policy> make_arc(const PolicyOptions& options) {
  return std::make_unique<ArcPolicy>(options);
}

}  // namespace headrace::cache
