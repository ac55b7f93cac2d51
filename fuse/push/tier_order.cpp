// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/tier_order.h"

namespace headrace::fuse {

void TierOrder::follow(SharedPlan& plan) {
  bool tells = false;
  while (const auto what = plan.use([&](const PushPlan& now) { return next(now, tells); })) tell(*what);
}

// While the plan is locked. `tells`: this thread is the one that tells the store.
std::optional<TierOrder::Next> TierOrder::next(const PushPlan& plan, bool& tells) {
  if (is_told_ && !tells) return std::nullopt;
  tells = is_told_ = plan.order() != order_ || plan.epoch() != epoch_;
  if (!tells) return std::nullopt;
  return Next{.order = plan.order(), .epoch = plan.epoch(), .held_bytes = plan.budget_bytes()};
}

void TierOrder::tell(const Next& next) {
  if (next.order == order_) {
    if (following_) following_->enter(next.epoch);
  } else {
    following_.reset();  // before its order goes
    order_ = next.order;
    if (next.order) following_ = store_.follow(*next.order, {.epoch = next.epoch, .held_bytes = next.held_bytes});
  }
  epoch_ = next.epoch;
}

}  // namespace headrace::fuse
