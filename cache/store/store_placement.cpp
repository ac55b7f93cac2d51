// SPDX-License-Identifier: Apache-2.0
// What the disk tiers hold: the Store carries out what Placement decides.
#include <utility>

#include "headrace/cache/simulator.h"
#include "headrace/cache/store/store_impl.h"

namespace headrace::cache {

using io::MutexLock;

class FollowingImpl final : public Following {
 public:
  FollowingImpl(StoreImpl& store, Placement::JobId job, const Order& order, const FollowOptions& options)
      : store_(store), job_(job), order_(order), held_bytes_(options.held_bytes) {}
  ~FollowingImpl() override { store_.end_following(job_); }
  FollowingImpl(const FollowingImpl&) = delete;
  FollowingImpl& operator=(const FollowingImpl&) = delete;

  void enter(std::uint64_t epoch) override {
    store_.forget_evicted(store_.placement_->enter(job_, epoch));
    store_.enter_epoch(order_, {.epoch = epoch, .held_bytes = held_bytes_});
  }

 private:
  StoreImpl& store_;
  const Placement::JobId job_;
  const Order& order_;
  const std::uint64_t held_bytes_;
};

void StoreImpl::make_placement() {
  std::vector<TierRoom> rooms;
  for (const auto& tier : tiers_) rooms.push_back({tier->stats().budget_bytes, tier->evicting_bytes()});
  placement_ = std::make_unique<Placement>(
      catalog_, std::move(rooms), [this](std::size_t tier, SampleIndex sample) { return has_record(tier, sample); });
}

std::unique_ptr<Following> StoreImpl::follow(const Order& order, const FollowOptions& options) {
  const Placement::Followed followed = placement_->follow(order, options.epoch);
  carry_out(followed.evictions);
  enter_epoch(order, options);
  return std::make_unique<FollowingImpl>(*this, followed.job, order, options);
}

void StoreImpl::end_following(Placement::JobId job) {
  carry_out(placement_->unfollow(job));
  MutexLock lock(epoch_mutex_);
  followed_epoch_ = {};
}

void StoreImpl::enter_epoch(const Order& order, const FollowOptions& options) {
  MutexLock lock(epoch_mutex_);
  followed_epoch_ = {.order = &order, .options = options, .source_reads_before = source_->stats().hits};
}

std::optional<EpochReads> StoreImpl::epoch_reads() const {
  MutexLock lock(epoch_mutex_);
  FollowedEpoch& followed = followed_epoch_;
  if (followed.order == nullptr) return std::nullopt;
  if (!followed.minimum_source_reads) {
    const Result<std::vector<SampleIndex>> samples = followed.order->epoch(followed.options.epoch);
    if (!samples) return std::nullopt;
    std::uint64_t capacity = followed.options.held_bytes + ram_.budget_bytes();
    for (const auto& tier : tiers_) capacity += tier->stats().budget_bytes;
    followed.minimum_source_reads = minimum_source_reads(*samples, record_footprints(catalog_), capacity);
  }
  return EpochReads{followed.options.epoch, source_->stats().hits - followed.source_reads_before,
                    *followed.minimum_source_reads};
}

void StoreImpl::note_use(EntryId entry) {
  if (const auto sample = catalog_.sample_of(entry)) carry_out(placement_->on_read(*sample));
}

void StoreImpl::note_use_in_memory(const ChunkRequest& request) {
  const bool is_use = request.key.chunk == 0 && !is_ahead(request.hint) && !request.for_warm_job;
  if (is_use && ram_.budget_bytes() == 0 && placement_->watches()) note_use(request.key.entry);
}

void StoreImpl::offer(EntryId entry) {
  if (const auto sample = catalog_.sample_of(entry)) forget_evicted(placement_->on_offer(*sample));
}

bool StoreImpl::wants(std::size_t tier, EntryId entry) const {
  return !placement_->evicts() || placement_->wants(tier, catalog_.sample_of(entry));
}

bool StoreImpl::has_record(std::size_t tier, SampleIndex sample) const {
  const EntryId entry = catalog_.sample_entry(sample);
  const Result<Identity> identity = identity_of(entry);
  return identity && tiers_[tier]->contains({hash_name(catalog_.path(entry), 0), 0, *identity});
}

// After whatever may have changed the policy.
void StoreImpl::carry_out(const Placement::Evictions& evictions) {
  for (const auto& tier : tiers_) tier->set_evicting(placement_->evicts());
  forget_evicted(evictions);
}

void StoreImpl::forget_evicted(const Placement::Evictions& evictions) {
  for (const Placement::Eviction& gone : evictions) {
    const EntryId entry = catalog_.sample_entry(gone.sample);
    const std::string path = catalog_.path(entry);
    const std::uint32_t chunks = chunks_of(entry);
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      tiers_[gone.tier]->forget({hash_name(path, chunk), chunk, {}});
    }
  }
}

}  // namespace headrace::cache
