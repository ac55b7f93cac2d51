// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/keep/policy_trial.h"

#include <algorithm>
#include <utility>

namespace headrace::cache {
namespace {

// A round is as long as an epoch: in a part of one, files read in sequence look as if only they mattered.
constexpr std::uint64_t kRoundReadsMin = 256;
// What S3-FIFO must gain to be begun, in parts of the reads: nearly every read that it misses is a write.
constexpr std::uint64_t kWorthwhileShare = 16;

}  // namespace

PolicyTrial::PolicyTrial(std::span<const std::uint32_t> sizes, const std::vector<TierRoom>& rooms,
                         const std::function<void(std::size_t tier, SampleIndex sample)>& on_evict)
    : reads_per_round_(std::max<std::uint64_t>(sizes.size(), kRoundReadsMin)) {
  for (std::size_t tier = 0; tier < rooms.size(); ++tier) {
    never_evict_.add(
        make_policy(PolicyKind::kNeverEvict, {.capacity_bytes = rooms[tier].budget_bytes, .sizes = sizes}));
    s3_fifo_.add(make_policy(PolicyKind::kS3Fifo,
                             {.capacity_bytes = rooms[tier].evicting_bytes,
                              .sizes = sizes,
                              .on_evict = [tier, on_evict](SampleIndex sample) { on_evict(tier, sample); }}));
  }
}

void PolicyTrial::read(SampleIndex sample) {
  ++reads_;
  never_evict_hits_ += never_evict_.read({.sample = sample}) != PolicyStack::kNowhere ? 1 : 0;
  s3_fifo_hits_ += s3_fifo_.read({.sample = sample}) != PolicyStack::kNowhere ? 1 : 0;
  if (reads_ == reads_per_round_) judge();
}

// Begun for a clear gain, ended when there is none left.
void PolicyTrial::judge() {
  const std::uint64_t needed = prefers_s3_fifo_ ? 0 : reads_ / kWorthwhileShare;
  prefers_s3_fifo_ = s3_fifo_hits_ > never_evict_hits_ + needed;
  reads_ = 0;
  never_evict_hits_ = 0;
  s3_fifo_hits_ = 0;
}

}  // namespace headrace::cache
