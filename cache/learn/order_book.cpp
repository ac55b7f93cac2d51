// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order_book.h"

#include <utility>

#include "headrace/io/log.h"

namespace headrace::cache {
using io::MutexLock;

namespace {

std::unique_ptr<OrderLearner> make_learner(const OrderCandidates& candidates, OrderLearnerOptions options) {
  if (!candidates.learn) return nullptr;
  options.record_folder = candidates.record_folder;
  return std::make_unique<OrderLearner>(std::move(options));
}

}  // namespace

// A reader that listed the files before these were others goes on with its own list, so `before` comes first.
OrderBook::OrderBook(OrderCandidates candidates, OrderLearnerOptions learning, bool& follows_before)
    : on_found_(std::move(candidates.on_found)),
      learner_(make_learner(candidates, std::move(learning))),
      first_epoch_(candidates.first_epoch),
      follows_before_(follows_before) {
  follows_before_ = follows_before_ && candidates.before;
  if (follows_before_) candidates.given.insert(candidates.given.begin(), std::move(candidates.before));
  for (std::shared_ptr<const Order>& order : candidates.given)
    in_turn_.push_back({.order = std::move(order), .epoch = first_epoch_, .may_be_wrong = true});
  found_.by = std::move(candidates.found_by);
}

OrderPosition OrderBook::next() const {
  MutexLock lock(mutex_);
  return in_turn_.empty() ? OrderPosition{.epoch = first_epoch_} : in_turn_.front();
}

void OrderBook::set(const OrderPosition& order) {
  MutexLock lock(mutex_);
  in_turn_.clear();
  if (order.order) in_turn_.push_back(order);
  follows_before_ = false;
  forget_found();
  follower_->set_order(order);
}

void OrderBook::learn_anew() {
  MutexLock lock(mutex_);
  in_turn_.clear();
  follows_before_ = false;
  forget_found();
  learner_->learn_anew();
  generation_ = learner_->generation();
  follower_->set_order({});
}

std::optional<OrderBook::GivenUp> OrderBook::on_opens(std::span<const SampleIndex> samples) {
  MutexLock lock(mutex_);
  const OrderFollower::Finding finding = follower_->take_finding();
  std::optional<GivenUp> given_up;
  if (finding.contradiction) given_up = give_up(*finding.contradiction);
  if (samples.empty()) return given_up;  // READs that tell nothing: the learner misses none
  // Looking costs a search. A lock that was found stays: the follower goes along it by itself.
  const bool looks = learner_ && in_turn_.empty() && finding.wants_order;
  if (looks && looked_away_) learner_->on_events_lost();
  looked_away_ = !looks;
  if (looks) learn(samples);
  return given_up;
}

OrderBook::GivenUp OrderBook::give_up(const OrderFollower::Contradiction& contradiction) {
  GivenUp given_up{.spec = contradiction.spec};
  if (!contradiction.is_all) return given_up;
  const bool was_learned = in_turn_.empty();
  if (was_learned && learner_) learner_->give_lock_up();
  if (!was_learned) in_turn_.erase(in_turn_.begin());
  follows_before_ = false;
  forget_found();
  if (in_turn_.empty()) return given_up;
  given_up.next = in_turn_.front().order->spec();
  follower_->set_order(in_turn_.front());
  return given_up;
}

// The next open follows whatever the learner still knows; an order that does not fit fails then.
void OrderBook::forget_found() {
  generation_.reset();
  found_ = {};
  parts_version_.reset();
  tell(nullptr);
}

void OrderBook::tell(const Order* order) {
  if (on_found_) on_found_(order, found_.by);
}

void OrderBook::learn(std::span<const SampleIndex> samples) {
  learner_->on_opens(samples);
  if (const std::vector<SampleIndex> left_out = learner_->take_left_out(); !left_out.empty())
    follower_->let_go(left_out);
  const std::uint64_t generation = learner_->generation();
  if (std::exchange(generation_, generation) == generation) return;
  const std::optional<OrderLearner::Lock> found = learner_->lock();
  const bool was_known = !found_.by.empty();
  found_ = found ? Found{.by = found->found_by,
                         .confidence_bits = found->confidence_bits,
                         .opens = learner_->state().opens_to_lock}
                 : Found{};
  if (found || was_known) follow(found);
}

void OrderBook::follow(const std::optional<OrderLearner::Lock>& lock) {
  const std::optional<std::uint64_t> before = std::exchange(parts_version_, std::nullopt);
  if (!lock) {
    io::log_info("the reader's order is not known any more");
    tell(nullptr);
    return follower_->set_order({});
  }
  if (lock->in_turn) parts_version_ = lock->in_turn_version;
  if (parts_version_ && parts_version_ == before) return;  // the follower sees by itself that another part is read
  std::shared_ptr<const Order> order = lock->in_turn ? lock->in_turn : lock->order;
  io::log_info("the reader's order is {}, epoch {}, found by {}", order->spec(), lock->epoch, lock->found_by);
  // One that is known for some epochs alone is looked for again after these, by what only this process knows.
  tell(lock->known_epochs == UINT64_MAX ? order.get() : nullptr);
  follower_->set_order({.order = std::move(order),
                        .epoch = lock->epoch,
                        .position = lock->position,
                        .epoch_count = lock->known_epochs,
                        .read_already = learner_->opens_of_epoch()});
}

void OrderBook::on_events_lost() {
  if (learner_) learner_->on_events_lost();
}

void OrderBook::on_list(OrderLearner::SamplesWithin within) {
  learner_->offer_list(std::move(within));
}

OrderBook::Found OrderBook::found() const {
  if (!learner_) return {};
  MutexLock lock(mutex_);
  Found found = found_;
  const OrderLearner::State state = learner_->state();
  found.search_cpu_seconds = state.search_cpu_seconds;
  found.search_seeds = state.search_seeds;
  found.search_seeds_tested = state.search_seeds_tested;
  found.search_seeds_per_second = state.search_seeds > 0 ? state.seeds_per_second : 0;
  return found;
}

void OrderBook::leave_to_other_samples(const std::function<void()>& what) {
  MutexLock lock(mutex_);
  tell(nullptr);
  what();
}

}  // namespace headrace::cache
