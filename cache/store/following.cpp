// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/following.h"

#include "headrace/cache/sample_sizes.h"
#include "headrace/cache/simulator.h"

namespace headrace::cache {
namespace {

using io::MutexLock;

std::vector<std::uint64_t> evicting_bytes_of(const DiskTiers& tiers) {
  std::vector<std::uint64_t> bytes;
  for (const auto& tier : tiers) bytes.push_back(tier->evicting_bytes());
  return bytes;
}

}  // namespace

class TierFollower::Handle final : public Following {
 public:
  Handle(TierFollower& follower, Placement::JobId job, const Order& order, std::uint64_t held_bytes)
      : follower_(follower), job_(job), order_(order), held_bytes_(held_bytes) {}
  ~Handle() override {
    follower_.placement_.unfollow(job_);
    follower_.carry_out();
    follower_.set_epoch({});
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  void enter(std::uint64_t epoch) override {
    follower_.evict(follower_.placement_.enter(job_, epoch));
    begin(epoch);
  }
  void begin(std::uint64_t epoch) {
    follower_.set_epoch({.order = &order_,
                         .options = {.epoch = epoch, .held_bytes = held_bytes_},
                         .reads_before = follower_.reads_so_far()});
  }

 private:
  TierFollower& follower_;
  const Placement::JobId job_;
  const Order& order_;
  const std::uint64_t held_bytes_;
};

TierFollower::TierFollower(const Parts& parts)
    : parts_(parts),
      placement_(parts.catalog, evicting_bytes_of(parts.tiers),
                 [this](std::size_t tier, SampleIndex sample) { return has_record(tier, sample); }) {}

std::unique_ptr<Following> TierFollower::follow(const Order& order, const FollowOptions& options) {
  const Placement::JobId job = placement_.follow(order, options.epoch);
  carry_out();
  auto handle = std::make_unique<Handle>(*this, job, order, options.held_bytes);
  handle->begin(options.epoch);
  return handle;
}

void TierFollower::set_epoch(const FollowedEpoch& epoch) {
  MutexLock lock(epoch_mutex_);
  epoch_ = epoch;
  follows_.store(epoch.order != nullptr, std::memory_order_relaxed);
}

std::optional<EpochReads> TierFollower::epoch_reads() const {
  MutexLock lock(epoch_mutex_);
  if (epoch_.order == nullptr) return std::nullopt;
  if (!epoch_.minimum_source_reads) {
    const Result<std::vector<SampleIndex>> samples = epoch_.order->epoch(epoch_.options.epoch);
    if (!samples) return std::nullopt;
    std::uint64_t capacity = epoch_.options.held_bytes + parts_.ram.budget_bytes();
    for (const auto& tier : parts_.tiers) capacity += tier->stats().budget_bytes;
    epoch_.minimum_source_reads =
        minimum_source_reads(*samples, sample_sizes(parts_.catalog, SampleSize::kPagesInStore), pages_in(capacity));
  }
  EpochReads reads = reads_so_far();
  reads.epoch = epoch_.options.epoch;
  reads.minimum_source_reads = *epoch_.minimum_source_reads;
  reads.source_reads -= epoch_.reads_before.source_reads;
  reads.disk_reads -= epoch_.reads_before.disk_reads;
  reads.own_peer_reads -= epoch_.reads_before.own_peer_reads;
  reads.peer_reads -= epoch_.reads_before.peer_reads;
  return reads;
}

EpochReads TierFollower::reads_so_far() const {
  EpochReads reads;
  reads.source_reads = parts_.source.stats().hits;
  for (const auto& tier : parts_.tiers) reads.disk_reads += tier->stats().hits;
  if (parts_.shared == nullptr) return reads;
  const SharedTier::Served served = parts_.shared->served();
  reads.own_peer_reads = served.by_own;
  reads.peer_reads = served.by_others;
  return reads;
}

void TierFollower::note_use(EntryId entry) {
  if (const auto sample = parts_.catalog.sample_of(entry)) evict(placement_.on_read(*sample));
}

void TierFollower::offer(EntryId entry) {
  if (!placement_.evicts()) return;
  if (const auto sample = parts_.catalog.sample_of(entry)) evict(placement_.on_offer(*sample));
}

bool TierFollower::wants(std::size_t tier, EntryId entry) const {
  return !placement_.evicts() || placement_.wants(tier, parts_.catalog.sample_of(entry));
}

bool TierFollower::has_record(std::size_t tier, SampleIndex sample) const {
  const EntryId entry = parts_.catalog.sample_entry(sample);
  const Result<Identity> identity = parts_.identities.of_file(entry);
  return identity && parts_.tiers[tier]->contains({hash_name(parts_.catalog.path(entry), 0), 0, *identity});
}

// After the placement has begun or ceased to follow. Whoever comes last tells the tiers how that is.
void TierFollower::carry_out() {
  {
    MutexLock lock(evicting_mutex_);
    for (const auto& tier : parts_.tiers) tier->set_evicting(placement_.evicts());
  }
  evict(placement_.settle());
}

// But for what has been taken in again since it was named.
void TierFollower::evict(const Placement::Evictions& evictions) {
  for (const Placement::Eviction& gone : evictions) {
    if (placement_.wants(gone.tier, gone.sample)) continue;
    const EntryId entry = parts_.catalog.sample_entry(gone.sample);
    const std::string path = parts_.catalog.path(entry);
    const std::uint32_t chunks = parts_.identities.chunks_of(entry);
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      parts_.tiers[gone.tier]->drop({hash_name(path, chunk), chunk, {}});
    }
  }
}

}  // namespace headrace::cache
