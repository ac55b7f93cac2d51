// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/opens/order_watch.h"

#include <utility>
#include <vector>

#include "headrace/io/log.h"

namespace headrace::fuse {
using cache::SampleIndex;
using io::MutexLock;

OrderWatch::OrderWatch(cache::OrderLearnerOptions options, SharedPlan& plan, OnFound on_found)
    : plan_(plan), on_found_(std::move(on_found)), learner_(std::move(options)) {}

void OrderWatch::begin(bool known, const std::string& found_by) {
  MutexLock lock(mutex_);
  told_ = known;
  if (known) found_.by = found_by;
}

void OrderWatch::tell(const cache::Order* order) {
  if (on_found_) on_found_(order, found_.by);
}

void OrderWatch::on_opens(std::span<const SampleIndex> samples) {
  MutexLock lock(mutex_);
  if (!is_looking()) return;
  learner_.on_opens(samples);
  if (const std::vector<SampleIndex> left_out = learner_.take_left_out(); !left_out.empty()) plan_.let_go(left_out);
  const std::uint64_t generation = learner_.generation();
  if (std::exchange(generation_, generation) == generation) return;
  const std::optional<cache::OrderLearner::Lock> found = learner_.lock();
  const bool was_known = !found_.by.empty();
  found_ = found ? Found{.by = found->found_by,
                         .confidence_bits = found->confidence_bits,
                         .opens = learner_.state().opens_to_lock}
                 : Found{};
  if (found || was_known) follow(found);
}

// Looking costs a search. A lock that was found stays: the plan follows the reader along it by itself.
bool OrderWatch::is_looking() {
  const bool looks = !told_ && plan_.wants_order();
  if (looks && looked_away_) learner_.on_events_lost();
  looked_away_ = !looks;
  return looks;
}

void OrderWatch::on_told(bool known) {
  MutexLock lock(mutex_);
  follow_anew();
  told_ = known;
}

void OrderWatch::learn_anew() {
  MutexLock lock(mutex_);
  learner_.learn_anew();
  generation_ = learner_.generation();
  told_ = false;
  found_ = {};
  in_turn_ = {};
  tell(nullptr);
}

void OrderWatch::on_contradicted() {
  MutexLock lock(mutex_);
  if (!told_) learner_.give_lock_up();
  follow_anew();
}

// What the learner still knows, or what is left of it, is followed at the next open: one that does not fit fails then.
void OrderWatch::follow_anew() {
  generation_.reset();
  told_ = false;
  found_ = {};
  in_turn_ = {};
  tell(nullptr);
}

void OrderWatch::follow(const std::optional<cache::OrderLearner::Lock>& lock) {
  const std::optional<std::uint64_t> before = std::exchange(in_turn_, std::nullopt);
  if (!lock) {
    io::log_info("the reader's order is not known any more");
    tell(nullptr);
    return plan_.set_order({});
  }
  if (lock->in_turn) in_turn_ = lock->in_turn_version;
  if (in_turn_ && in_turn_ == before) return;  // the plan sees by itself that another part is read
  std::shared_ptr<const cache::Order> order = lock->in_turn ? lock->in_turn : lock->order;
  io::log_info("the reader's order is {}, epoch {}, found by {}", order->spec(), lock->epoch, lock->found_by);
  // One that is known for some epochs alone is looked for again after these, by what only this process knows.
  tell(lock->known_epochs == UINT64_MAX ? order.get() : nullptr);
  plan_.set_order({.order = std::move(order),
                   .epoch = lock->epoch,
                   .position = lock->position,
                   .epoch_count = lock->known_epochs,
                   .read_already = learner_.opens_of_epoch()});
}

void OrderWatch::on_events_lost() {
  learner_.on_events_lost();
}

OrderWatch::Found OrderWatch::found() const {
  MutexLock lock(mutex_);
  Found found = found_;
  const cache::OrderLearner::State state = learner_.state();
  found.search_cpu_seconds = state.search_cpu_seconds;
  found.search_seeds = state.search_seeds;
  found.search_seeds_tested = state.search_seeds_tested;
  found.search_seeds_per_second = state.search_seeds > 0 ? state.seeds_per_second : 0;
  return found;
}

}  // namespace headrace::fuse
