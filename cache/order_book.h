// SPDX-License-Identifier: Apache-2.0
// Decides which order is followed. An order that somebody sets or tells goes before those that were given at the start,
// and these go before what is learned from the opens. The first is followed until the opens contradict it, then the
// next, and at last what is learned.
//
//   OrderBook book({.given = orders, .learn = true}, {.sample_count = n}, head.follows_before);
//   book.begin(plan);                          // it follows book.next() already
//   book.set({.order = told, .epoch = 3, .may_be_wrong = true});
//   if (auto given_up = book.on_opens(samples)) tell(*given_up);   // after the plan has heard of them
//
// Learning goes on only while an order is of use: no other is known, and it matters in which order samples are read.
//
// Thread-safety: every function from any thread, begin() before all others but next(). Ownership: the follower and
// `follows_before` outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headrace/cache/order_candidates.h"
#include "headrace/cache/order_learner.h"
#include "headrace/cache/order_position.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

// Follows the order that a book decides on. It is called under the book's lock and calls nothing but next_unseen().
class OrderFollower {
 public:
  virtual ~OrderFollower() = default;
  // Follows this order from now on. Null: the order is unknown.
  virtual void set_order(const OrderPosition& order) = 0;
  // An epoch went by, while no order was known, in which these were not read.
  virtual void let_go(std::span<const SampleIndex> samples) = 0;
  struct Contradiction {
    std::string spec;     // what is not followed any more
    bool is_all = false;  // no order is left
  };
  struct Finding {
    bool wants_order = false;  // it matters in which order samples are read
    // It is there once after the opens contradicted the order that was set last.
    std::optional<Contradiction> contradiction = std::nullopt;
  };
  [[nodiscard]] virtual Finding take_finding() = 0;
};

class OrderBook {
 public:
  // `learning`: about the samples; used where the candidates say that an order is looked for. `follows_before`: whether
  // the process before this one followed the order before, or one that takes over has to; it outlives processes.
  OrderBook(OrderCandidates candidates, OrderLearnerOptions learning, bool& follows_before);
  OrderBook(const OrderBook&) = delete;
  OrderBook& operator=(const OrderBook&) = delete;

  // The order that goes before all others, where it begins. Null: none is known but what may be learned.
  [[nodiscard]] OrderPosition next() const;
  void begin(OrderFollower& follower) { follower_ = &follower; }

  // Somebody sets or tells this order, which replaces all that were known. Null: it is unknown.
  void set(const OrderPosition& order);
  // Forgets whatever was said or found; the order is looked for. For a book that learns.
  void learn_anew();
  [[nodiscard]] bool learns() const { return learner_ != nullptr; }

  struct GivenUp {
    std::string spec;
    std::string next = {};  // what is followed in its place; empty: the same without one of its sets, or none
  };
  // Goes on with the next order where the opens contradicted the one that was followed, and learns from them. Of
  // records these are what the READs tell to be read; there may be none.
  [[nodiscard]] std::optional<GivenUp> on_opens(std::span<const SampleIndex> samples);
  void on_events_lost();
  // A list was read; as OrderLearner::offer_list() takes it.
  void on_list(OrderLearner::SamplesWithin within);
  // Hands out the samples that may be fetched while no order is known, each once an epoch. nullopt: none is left.
  [[nodiscard]] std::optional<SampleIndex> next_unseen() { return learner_->next_unseen(); }

  // How the order in use was found: empty while none is known.
  struct Found {
    std::string by = {};
    double confidence_bits = 0;      // log2 of how much better than chance the opens fit it
    std::uint64_t opens = 0;         // of its epoch, that it was found by
    double search_cpu_seconds = 0;   // of all searches, in vain or not
    std::uint64_t search_seeds = 0;  // that the search under way tests at most; 0: none is under way
    std::uint64_t search_seeds_tested = 0;
    double search_seeds_per_second = 0;
  };
  [[nodiscard]] Found found() const;

  // Blocks until everything that the opens so far call for has been tried. For tests.
  void wait_idle() { learner_->wait_idle(); }
  // The next process has other samples, so that it is not told of what was found. Runs `what` while no order is set,
  // learned or given up.
  void leave_to_other_samples(const std::function<void()>& what);

 private:
  [[nodiscard]] GivenUp give_up(const OrderFollower::Contradiction& contradiction) HEADRACE_REQUIRES(mutex_);
  void learn(std::span<const SampleIndex> samples) HEADRACE_REQUIRES(mutex_);
  void forget_found() HEADRACE_REQUIRES(mutex_);
  void follow(const std::optional<OrderLearner::Lock>& lock) HEADRACE_REQUIRES(mutex_);
  void tell(const Order* order) HEADRACE_REQUIRES(mutex_);

  const std::function<void(const Order*, const std::string&)> on_found_;  // may be empty
  const std::unique_ptr<OrderLearner> learner_;                           // null: no order is looked for
  const std::uint64_t first_epoch_;                                       // where no order is known, too
  OrderFollower* follower_ = nullptr;                                     // set by begin()

  mutable io::Mutex mutex_;  // held while an order is handed on, so that an older one cannot overtake it
  std::vector<OrderPosition> in_turn_ HEADRACE_GUARDED_BY(mutex_);  // what was said; the first one is followed
  bool& follows_before_ HEADRACE_GUARDED_BY(mutex_);                // that first one is the order before
  // The learner's generation when it was last looked at; nullopt: the next open looks in any case.
  std::optional<std::uint64_t> generation_ HEADRACE_GUARDED_BY(mutex_);
  Found found_ HEADRACE_GUARDED_BY(mutex_);
  std::optional<std::uint64_t> parts_version_ HEADRACE_GUARDED_BY(mutex_);  // of the parts in turn that are followed
  bool looked_away_ HEADRACE_GUARDED_BY(mutex_) = false;                    // the learner has not heard of all opens
};

}  // namespace headrace::cache
