// SPDX-License-Identifier: Apache-2.0
// Finds the order out from the opens and has the pusher push along it. It looks
// only while an order is of use: not where all samples are held, and not once somebody has told the order.
//
//   OrderWatch watch({.sample_count = n, .parts = cache::top_level_parts(catalog)}, plan);
//   watch.on_opens(samples);   // after the plan has heard of them
//
// Thread-safety: every function from any thread. Ownership: the plan outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "headrace/cache/catalog.h"
#include "headrace/cache/order_learner.h"
#include "headrace/fuse/push/shared_plan.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

class OrderWatch {
 public:
  // An order that was found, and by what; null: it is not known any more. Called under a lock; must not block.
  using OnFound = std::function<void(const cache::Order* order, const std::string& by)>;
  OrderWatch(cache::OrderLearnerOptions options, SharedPlan& plan, OnFound on_found = {});
  OrderWatch(const OrderWatch&) = delete;
  OrderWatch& operator=(const OrderWatch&) = delete;

  // Of records: what the READs tell to be read.
  void on_opens(std::span<const cache::SampleIndex> samples);
  // A list that was read, as OrderLearner::offer_list() takes it.
  void on_list(cache::OrderLearner::SamplesWithin within) { learner_.offer_list(std::move(within)); }
  void on_events_lost();
  // Before all others: the plan begins with an order, that a process before this one found by this (empty: that was
  // given), or with none.
  void begin(bool known, const std::string& found_by);
  // Somebody told the order, or (false) that it is unknown.
  void on_told(bool known);
  // Whatever was told or found is forgotten; the order is looked for.
  void learn_anew();
  // The opens contradict the order that is followed: it is looked for, and a lock on it is dropped.
  void on_contradicted();
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
  // What may be pushed while no order is known.
  [[nodiscard]] std::optional<cache::SampleIndex> next_unseen() { return learner_.next_unseen(); }

 private:
  bool is_looking() HEADRACE_REQUIRES(mutex_);
  void follow_anew() HEADRACE_REQUIRES(mutex_);
  void follow(const std::optional<cache::OrderLearner::Lock>& lock) HEADRACE_REQUIRES(mutex_);

  void tell(const cache::Order* order) HEADRACE_REQUIRES(mutex_);

  SharedPlan& plan_;
  const OnFound on_found_;  // may be empty
  cache::OrderLearner learner_;

  mutable io::Mutex mutex_;  // held while a lock is handed on, so that an older one cannot overtake it
  // Of the learner, that was looked at; nullopt: what it knows is to be looked at in any case.
  std::optional<std::uint64_t> generation_ HEADRACE_GUARDED_BY(mutex_);
  Found found_ HEADRACE_GUARDED_BY(mutex_);
  std::optional<std::uint64_t> in_turn_ HEADRACE_GUARDED_BY(mutex_);  // the version of the parts that are followed
  bool told_ HEADRACE_GUARDED_BY(mutex_) = false;
  bool looked_away_ HEADRACE_GUARDED_BY(mutex_) = false;  // the learner has not heard of all opens
};

}  // namespace headrace::fuse
