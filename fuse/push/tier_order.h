// SPDX-License-Identifier: Apache-2.0
// Tells the store which order the plan follows, and its epoch, so that the disk tiers hold what is needed next.
//
//   TierOrder tiers(store);
//   tiers.follow(plan);   // whenever the plan may have another order or epoch
//
// Thread-safety: every function from any thread; reset() once nobody follows any more. Ownership: the store outlives
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "headrace/cache/store.h"
#include "headrace/fuse/push/shared_plan.h"

namespace headrace::fuse {

class TierOrder {
 public:
  explicit TierOrder(cache::Store& store) : store_(store) {}

  // Blocks while the store draws an epoch's next uses. Where a thread tells it already, that one goes on until nothing
  // is new, and this call returns at once.
  void follow(SharedPlan& plan);
  void reset() { following_.reset(); }

 private:
  struct Next {
    std::shared_ptr<const cache::Order> order;
    std::uint64_t epoch = 0;
    std::uint64_t held_bytes = 0;
  };
  [[nodiscard]] std::optional<Next> next(const PushPlan& plan, bool& tells);
  void tell(const Next& next);

  cache::Store& store_;
  bool is_told_ = false;  // by some thread just now; looked at while the plan is locked
  // By that thread.
  std::shared_ptr<const cache::Order> order_;  // null: nothing
  std::uint64_t epoch_ = 0;
  std::unique_ptr<cache::Following> following_;
};

}  // namespace headrace::fuse
