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

std::vector<SampleIndex> replay_epoch(const std::vector<std::vector<SampleIndex>>& lists, ReplayLoader loader,
                                      std::mt19937& random) {
  std::vector<ReplayRank> ranks;
  for (const auto& list : lists) ranks.emplace_back(list, loader);
  std::vector<SampleIndex> opens;
  while (true) {
    std::erase_if(ranks, [](const ReplayRank& rank) { return rank.done(); });
    if (ranks.empty()) return opens;
    opens.push_back(ranks[random() % ranks.size()].step(random));
  }
}

}  // namespace headrace::test
