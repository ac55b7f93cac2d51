// SPDX-License-Identifier: Apache-2.0
// Which set the reader is in, where an order is over several: it shows by whose samples are opened.
//
//   SetTurns turns(passes);
//   if (const auto turn = turns.on_open(sample, is_stray)) read_ahead.seek(turn->pass, turn->position);
//   turns.note({.epoch = 3, .position = 120});   // where ReadAhead is now
//
// Thread-safety: none; one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "headrace/cache/pass_order.h"

namespace headrace::fuse {

class SetTurns {
 public:
  explicit SetTurns(std::shared_ptr<cache::PassOrder> passes)
      : passes_(std::move(passes)), left_(passes_->sets().size()) {}

  struct Turn {
    std::uint64_t pass = 0;
    std::uint64_t position = 0;
    std::vector<cache::SampleIndex> opened = {};  // of the set, that showed it
  };
  // A reader that comes back to a set goes on there, unless it was through with it.
  [[nodiscard]] std::optional<Turn> on_open(cache::SampleIndex sample, bool is_stray);
  void note(std::uint64_t pass, std::uint64_t position);
  // A set is not planned any more: goes on without it, in the largest one if it is read now.
  [[nodiscard]] Turn leave(std::size_t gone) { return turn_to(set() == gone ? passes_->largest() : set()); }
  [[nodiscard]] std::size_t set() const { return passes_->pass(pass_).set; }

 private:
  // 12 of the last 16 opens: two loaders in turn do not make the plan go to and fro.
  static constexpr std::size_t kOpens = 16;
  static constexpr std::size_t kOpensOfSet = 12;

  struct Left {
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;
  };
  [[nodiscard]] Turn turn_to(std::size_t set);
  [[nodiscard]] bool is_through(std::size_t set) const;
  void remember();

  const std::shared_ptr<cache::PassOrder> passes_;
  std::vector<std::optional<Left>> left_;   // by set
  std::vector<cache::SampleIndex> recent_;  // the last opens
  std::uint64_t pass_ = 0;
  std::uint64_t position_ = 0;
};

}  // namespace headrace::fuse
