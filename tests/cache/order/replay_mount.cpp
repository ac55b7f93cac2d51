// SPDX-License-Identifier: Apache-2.0
#include "cache/order/replay_mount.h"

#include <utility>

namespace headrace::test {

using cache::ReadAhead;
using cache::SampleIndex;

namespace {

constexpr std::uint32_t kSampleBytes = 100;

cache::OrderLearnerOptions learner_options(const ReplayMountOptions& options) {
  cache::OrderLearnerOptions learner = options.learner;
  learner.sample_count = options.samples;
  return learner;
}

}  // namespace

ReplayMount::ReplayMount(ReplayMountOptions options)
    : options_(std::move(options)),
      sizes_(std::vector<std::uint32_t>(options_.samples, kSampleBytes)),
      learner_(learner_options(options_)),
      held_(options_.samples) {}

void ReplayMount::on_open(SampleIndex sample) {
  ++opens_;
  land();
  if (plan_) {
    ++opens_under_lock_;
    found_ += held_[sample] ? 1 : 0;
    plan_->on_read(sample);
    drop_released();
  }
  learner_.on_opens({&sample, 1});
  if (!plan_ || opens_ % 16 == 0) learner_.wait_idle();
  if (std::exchange(generation_, learner_.generation()) != learner_.generation()) follow();
  if (plan_) fetch();
}

double ReplayMount::share_fetched() const {
  return opens_under_lock_ == 0 ? 0 : static_cast<double>(found_) / static_cast<double>(opens_under_lock_);
}

void ReplayMount::land() {
  while (!in_flight_.empty() && in_flight_.front().lands_at <= opens_) {
    const SampleIndex sample = in_flight_.front().sample;
    in_flight_.pop_front();
    held_[sample] = true;
    plan_->on_fetched(sample, true);
    drop_released();
  }
}

// A new plan; what the old one held stays only where the new one asks for it.
void ReplayMount::follow() {
  const auto lock = learner_.lock();
  plan_.reset();
  in_flight_.clear();
  const std::vector<bool> held_before = std::exchange(held_, std::vector<bool>(options_.samples));
  if (!lock) return;
  order_ = lock->order;
  plan_ = std::make_unique<ReadAhead>(*order_, sizes_,
                                      cache::ReadAheadOptions{.budget_bytes = options_.budget_samples * kSampleBytes,
                                                              .first_epoch = lock->epoch,
                                                              .epoch_count = lock->known_epochs});
  if (lock->position > 0) plan_->seek(lock->epoch, lock->position);
  for (const SampleIndex sample : learner_.opens_of_epoch()) plan_->on_read(sample);
  drop_released();
  while (in_flight_.size() < options_.fetches_at_once) {
    const auto sample = plan_->next_fetch();
    if (!sample) return;
    if (held_before[*sample]) {
      held_[*sample] = true;
      plan_->on_fetched(*sample, true);
    } else {
      in_flight_.push_back({*sample, opens_ + options_.latency_opens});
    }
  }
}

void ReplayMount::fetch() {
  while (in_flight_.size() < options_.fetches_at_once) {
    const auto sample = plan_->next_fetch();
    if (!sample) return;
    in_flight_.push_back({*sample, opens_ + options_.latency_opens});
  }
}

void ReplayMount::drop_released() {
  for (const SampleIndex sample : plan_->take_releases()) held_[sample] = false;
}

}  // namespace headrace::test
