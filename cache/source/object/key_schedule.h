// SPDX-License-Identifier: Apache-2.0
// Says when access keys are looked for again: five minutes before they expire, or at half of a shorter life. A pure
// class: the caller has the clocks.
//
//   KeySchedule schedule(found.expires, now);
//   if (now.steady >= schedule.next_look()) ...
//
// Thread-safety: none; its owner locks.
#pragma once

#include <chrono>
#include <optional>

namespace headrace::cache {

class KeySchedule {
 public:
  using Steady = std::chrono::steady_clock::time_point;
  using Wall = std::chrono::system_clock::time_point;
  struct Now {
    Steady steady = std::chrono::steady_clock::now();
    Wall wall = std::chrono::system_clock::now();
  };

  // nullopt: keys that never expire.
  KeySchedule(std::optional<Wall> expires, const Now& now);

  [[nodiscard]] Steady next_look() const { return next_look_; }
  // True where a second has passed since the last look: refused keys are not asked for more often.
  [[nodiscard]] bool may_look(Steady now) const;

  // A look has found none.
  void on_none(const Now& now);
  // A look has found keys, maybe the same ones. Returns true where they have expired by the wall clock and those of the
  // look before had not, which is worth a warning.
  [[nodiscard]] bool on_found(std::optional<Wall> expires, const Now& now);

 private:
  Steady next_look_;
  Steady last_look_ = {};
  std::chrono::seconds pause_;  // before the next look for keys that have expired
};

}  // namespace headrace::cache
