// SPDX-License-Identifier: Apache-2.0
// Operations that have a deadline, the earliest first. Most have none and cost nothing here.
//
// Thread-safety: none. Ownership: of nothing.
#pragma once

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "headrace/io/engine.h"

namespace headrace::io::internal {

class Deadlines {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  void add(Operation& operation) {
    if (operation.deadline != TimePoint::max()) by_time_.emplace(operation.deadline, &operation);
  }
  void remove(Operation& operation) {
    if (operation.deadline != TimePoint::max()) by_time_.erase({operation.deadline, &operation});
  }
  [[nodiscard]] bool any() const { return !by_time_.empty(); }
  // When to look again: the earliest deadline, at most `limit`.
  [[nodiscard]] TimePoint earliest(TimePoint limit) const {
    return by_time_.empty() ? limit : std::min(limit, by_time_.begin()->first);
  }
  // Takes out one operation whose deadline has passed; nullptr when there is none.
  [[nodiscard]] Operation* take_expired(TimePoint now) {
    if (by_time_.empty() || by_time_.begin()->first > now) return nullptr;
    Operation* const expired = by_time_.begin()->second;
    by_time_.erase(by_time_.begin());
    return expired;
  }

 private:
  std::set<std::pair<TimePoint, Operation*>> by_time_;
};

}  // namespace headrace::io::internal
