// SPDX-License-Identifier: Apache-2.0
#include "cache/order/loader_replay.h"

#include <algorithm>

namespace headrace::test {

using cache::SampleIndex;

ReplayRank::ReplayRank(std::vector<SampleIndex> samples, ReplayLoader loader)
    : samples_(std::move(samples)), loader_(loader), workers_(std::max<std::size_t>(loader.workers, 1)) {
  end_ = loader_.drop_last ? samples_.size() / loader_.batch * loader_.batch : samples_.size();
  arrived_.resize((end_ + loader_.batch - 1) / loader_.batch);
  for (std::size_t i = 0; i < loader_.prefetch_factor * workers_.size(); ++i) send_batch();
}

std::size_t ReplayRank::batch_size(std::size_t batch) const {
  return std::min(loader_.batch, end_ - batch * loader_.batch);
}

void ReplayRank::send_batch() {
  if (sent_ == arrived_.size()) return;
  workers_[sent_ % workers_.size()].batches.push_back(sent_);
  ++sent_;
}

SampleIndex ReplayRank::step(std::mt19937& random) {
  std::size_t chosen = random() % workers_.size();
  while (workers_[chosen].batches.empty()) chosen = (chosen + 1) % workers_.size();
  Worker& worker = workers_[chosen];
  const std::size_t batch = worker.batches.front();
  const SampleIndex sample = samples_[batch * loader_.batch + worker.inside];
  ++opened_;
  if (++worker.inside == batch_size(batch)) {
    worker.batches.pop_front();
    worker.inside = 0;
    arrived_[batch] = true;
    for (; returned_ < arrived_.size() && arrived_[returned_]; ++returned_) send_batch();
  }
  return sample;
}

namespace {

// Which rank opens next.
class Pace {
 public:
  Pace(std::size_t ranks, double drift) : speeds_(ranks, 1.0), drift_(drift) {}
  void stop(std::size_t rank) { speeds_[rank] = 0; }
  [[nodiscard]] std::size_t next(std::mt19937& random) {
    constexpr std::size_t kSpeedLasts = 2000;  // opens
    if (drift_ > 0 && opens_++ % kSpeedLasts == 0) change(random);
    return std::discrete_distribution<std::size_t>(speeds_.begin(), speeds_.end())(random);
  }

 private:
  void change(std::mt19937& random) {
    std::uniform_real_distribution<double> speed(1 - drift_, 1 + drift_);
    for (double& each : speeds_) each = each == 0 ? 0 : speed(random);
  }

  std::vector<double> speeds_;
  const double drift_;
  std::size_t opens_ = 0;
};

}  // namespace

std::vector<SampleIndex> replay_epoch(const std::vector<std::vector<SampleIndex>>& lists, ReplayLoader loader,
                                      std::mt19937& random) {
  std::vector<ReplayRank> ranks;
  std::size_t total = 0;
  for (const auto& list : lists) ranks.emplace_back(list, loader);
  for (const ReplayRank& rank : ranks) total += rank.opens();
  Pace pace(ranks.size(), loader.drift);
  std::vector<SampleIndex> opens;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].done()) pace.stop(i);
  }
  while (opens.size() < total) {
    const std::size_t rank = pace.next(random);
    opens.push_back(ranks[rank].step(random));
    if (ranks[rank].done()) pace.stop(rank);
  }
  return opens;
}

}  // namespace headrace::test
