// SPDX-License-Identifier: Apache-2.0
// Figure 4 of "ARC: a self-tuning, low overhead replacement cache" (Megiddo and Modha, FAST 2003), with bytes for
// pages.
#include <algorithm>

#include "headrace/cache/policy/policy.h"
#include "headrace/cache/policy/sample_queues.h"

namespace headrace::cache {
namespace {

// The paper's lists: T1 and T2 are held, B1 and B2 remember what was evicted from them.
constexpr std::uint8_t kOnce = 0;
constexpr std::uint8_t kOften = 1;
constexpr std::uint8_t kGhostOnce = 2;
constexpr std::uint8_t kGhostOften = 3;

class ArcPolicy final : public Policy {
 public:
  explicit ArcPolicy(const PolicyOptions& options) : Policy(options), queues_(sample_count(), 4) {}

  [[nodiscard]] bool holds(SampleIndex sample) const override {
    const std::uint8_t where = queues_.queue_of(sample);
    return where == kOnce || where == kOften;
  }

  bool read(const Access& access) override {
    const SampleIndex sample = access.sample;
    const std::uint8_t where = queues_.queue_of(sample);
    if (holds(sample)) {
      remove(sample);
      push(kOften, sample);
      return true;
    }
    if (!can_ever_fit(sample)) return false;
    if (where == SampleQueues::kNowhere) {
      make_room_for_new(sample);
    } else {
      adapt(where, sample);
      remove(sample);
      while (!fits(sample)) replace(where == kGhostOften);
    }
    take_in(sample);
    push(where == SampleQueues::kNowhere ? kOnce : kOften, sample);
    return false;
  }

 private:
  void push(std::uint8_t queue, SampleIndex sample) {
    queues_.push_front(queue, sample);
    bytes_[queue] += size_of(sample);
  }

  void remove(SampleIndex sample) {
    bytes_[queues_.queue_of(sample)] -= size_of(sample);
    queues_.remove(sample);
  }

  void drop_ghost(std::uint8_t queue) { remove(queues_.back(queue)); }

  // A ghost that is read again shows which side deserved more room.
  void adapt(std::uint8_t where, SampleIndex sample) {
    const bool recency = where == kGhostOnce;
    const std::uint64_t own = std::max<std::uint64_t>(bytes_[recency ? kGhostOnce : kGhostOften], 1);
    const std::uint64_t other = bytes_[recency ? kGhostOften : kGhostOnce];
    const std::uint64_t step = size_of(sample) * std::max<std::uint64_t>(other / own, 1);
    once_target_ =
        recency ? std::min(once_target_ + step, capacity_bytes()) : once_target_ - std::min(once_target_, step);
  }

  // Case IV of the paper.
  void make_room_for_new(SampleIndex sample) {
    const std::uint64_t size = size_of(sample);
    while (bytes_[kOnce] + bytes_[kGhostOnce] + size > capacity_bytes() && !queues_.empty(kGhostOnce)) {
      drop_ghost(kGhostOnce);
    }
    const auto all = [&] { return bytes_[kOnce] + bytes_[kOften] + bytes_[kGhostOnce] + bytes_[kGhostOften]; };
    while (all() + size > 2 * capacity_bytes() && !queues_.empty(kGhostOften)) drop_ghost(kGhostOften);
    while (!fits(sample)) {
      // T1 alone fills the cache: its oldest goes without leaving a ghost.
      if (bytes_[kOnce] + size > capacity_bytes() && queues_.empty(kOften)) {
        const SampleIndex oldest = queues_.back(kOnce);
        remove(oldest);
        let_go(oldest);
      } else {
        replace(false);
      }
    }
  }

  void replace(bool for_ghost_of_often) {
    const bool over_target = bytes_[kOnce] > once_target_ || (for_ghost_of_often && bytes_[kOnce] == once_target_);
    const bool from_once = !queues_.empty(kOnce) && (over_target || queues_.empty(kOften));
    const std::uint8_t from = from_once ? kOnce : kOften;
    const SampleIndex oldest = queues_.back(from);
    remove(oldest);
    let_go(oldest);
    push(from_once ? kGhostOnce : kGhostOften, oldest);
  }

  SampleQueues queues_;
  std::uint64_t bytes_[4] = {};
  std::uint64_t once_target_ = 0;  // the paper's p: bytes that T1 should have
};

}  // namespace

std::unique_ptr<Policy> make_arc(const PolicyOptions& options) {
  return std::make_unique<ArcPolicy>(options);
}

}  // namespace headrace::cache
