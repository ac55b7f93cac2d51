// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/set_turns.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace headrace::fuse {
using cache::SampleIndex;

std::optional<SetTurns::Turn> SetTurns::on_open(SampleIndex sample, bool is_stray) {
  if (recent_.size() == kOpens) recent_.erase(recent_.begin());
  recent_.push_back(sample);
  const auto opened = passes_->set_of(sample);
  if (!is_stray || !opened || *opened == set()) return std::nullopt;
  std::vector<SampleIndex> of_set;
  std::ranges::copy_if(recent_, std::back_inserter(of_set),
                       [&](SampleIndex each) { return passes_->set_of(each) == opened; });
  if (of_set.size() < kOpensOfSet) return std::nullopt;
  Turn turn = turn_to(*opened);
  turn.opened = std::move(of_set);
  return turn;
}

// A pass of which nothing was read is only what is expected next.
void SetTurns::note(std::uint64_t pass, std::uint64_t position) {
  if (pass != pass_) {
    if (position == 0) return;
    remember();
    passes_->on_reached(pass_, pass);
  }
  pass_ = pass;
  position_ = position;
}

void SetTurns::remember() {
  const cache::PassOrder::Pass now = passes_->pass(pass_);
  left_[now.set] = Left{.epoch = now.epoch, .position = position_};
}

// The last positions of an epoch may never be read: drop_last.
bool SetTurns::is_through(std::size_t set) const {
  const std::uint64_t length = passes_->sets()[set].order->length(left_[set]->epoch);
  return left_[set]->position * 10 >= length * 9;
}

SetTurns::Turn SetTurns::turn_to(std::size_t set) {
  remember();
  const std::size_t before = this->set();
  if (is_through(before)) passes_->note_successor(before, set);
  const bool goes_on = left_[set] && !is_through(set);
  const std::uint64_t epoch = left_[set] ? left_[set]->epoch + (goes_on ? 0 : 1) : passes_->first_epoch(set);
  pass_ = passes_->turn_to(set, epoch);
  position_ = goes_on ? left_[set]->position : 0;
  recent_.clear();
  return {.pass = pass_, .position = position_};
}

}  // namespace headrace::fuse
