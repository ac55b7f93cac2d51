// SPDX-License-Identifier: Apache-2.0
// An order over several sets of one data set, read one after the other: training and validation below one mount.
//
//   PassOrder order(sets, {.sample_count = n});   // sets: train and val, each with an order of its own
//   order.pass(0);                                // {train, epoch 0}: what order.epoch(0) draws
//   order.turn_to(1, 0);                          // the reader began val instead: the number of that pass
//
// An epoch of it is a pass: one epoch of one set. Which set comes next is a guess until it was seen: the sets in turn,
// or the same again. From then on each set is followed by the one that followed it last. A number once drawn keeps its
// pass.
//
// Thread-safety: every function from any thread. Memory: 16 bytes per pass, 1 byte per sample of the data set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/cache/order.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

struct OrderedSet {
  std::string name;                    // of the folder, relative to the source
  std::vector<SampleIndex> samples;    // of the data set, as a loader of the folder numbers them
  std::shared_ptr<const Order> order;  // over these
};
using OrderedSets = std::shared_ptr<const std::vector<OrderedSet>>;  // disjoint, none of them empty

struct PassOptions {
  std::uint64_t sample_count = 0;               // of the data set
  std::uint64_t first_epoch = 0;                // of each set
  std::vector<std::uint64_t> next_epochs = {};  // by set, in the place of that; empty: it is the same for all
  bool in_turn = true;                          // false: as long as nothing else was seen, a set follows itself
};

class PassOrder final : public Order {
 public:
  static constexpr std::size_t kMaxSets = 16;  // more folders at the top are classes

  PassOrder(OrderedSets sets, const PassOptions& options);
  // The same sets from their epoch `first_epoch` on, or each from its own, with nothing seen of the reader.
  [[nodiscard]] std::shared_ptr<PassOrder> anew(std::uint64_t first_epoch) const;
  // The same sets, of which the reader is in the middle of one: pass 0. The others are taken to be as far as that:
  // those that come before it in turn by an epoch more.
  [[nodiscard]] std::shared_ptr<PassOrder> anew_within(std::size_t set, std::uint64_t epoch) const;

  [[nodiscard]] const std::string& spec() const override { return spec_; }  // "train=SPEC val=SPEC"
  [[nodiscard]] std::uint64_t length(std::uint64_t pass) const override;
  [[nodiscard]] std::uint64_t length_max(std::uint64_t pass) const override;  // of the largest set
  [[nodiscard]] Result<std::vector<SampleIndex>> epoch(std::uint64_t pass) const override;
  [[nodiscard]] Result<std::vector<SampleIndex>> prefix(std::uint64_t pass, std::uint64_t count) const override;
  [[nodiscard]] WorkerLayout workers() const override;  // of the largest set

  struct Pass {
    std::size_t set = 0;
    std::uint64_t epoch = 0;  // of the set
  };
  [[nodiscard]] Pass pass(std::uint64_t number) const;
  [[nodiscard]] const std::vector<OrderedSet>& sets() const { return *sets_; }
  [[nodiscard]] std::uint64_t first_epoch(std::size_t set) const {
    return options_.next_epochs.empty() ? options_.first_epoch : options_.next_epochs[set];
  }
  [[nodiscard]] std::size_t largest() const;
  // nullopt: in none, or in one that was let go.
  [[nodiscard]] std::optional<std::size_t> set_of(SampleIndex sample) const;

  // The reader went from one pass on to a later one; those in between were skipped.
  void on_reached(std::uint64_t from, std::uint64_t to);
  // A new pass, that nobody has drawn yet; returns its number.
  [[nodiscard]] std::uint64_t turn_to(std::size_t set, std::uint64_t epoch);
  // That the reader was seen to begin `set` when it was through with `before`.
  void note_successor(std::size_t before, std::size_t set);
  // Nothing is planned for the set any more: its order is another one. False: it was the last one.
  [[nodiscard]] bool let_go(std::size_t set);

 private:
  [[nodiscard]] Pass pass_locked(std::uint64_t number) const HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] std::size_t next_kept(std::size_t set) const HEADRACE_REQUIRES(mutex_);

  const OrderedSets sets_;
  const PassOptions options_;
  std::string spec_;
  std::vector<std::uint8_t> set_of_;  // by sample; kMaxSets: none

  mutable io::Mutex mutex_;
  mutable std::vector<Pass> passes_ HEADRACE_GUARDED_BY(mutex_);               // drawn or about to be
  mutable std::vector<std::uint64_t> next_epoch_ HEADRACE_GUARDED_BY(mutex_);  // by set
  std::vector<std::size_t> follower_ HEADRACE_GUARDED_BY(mutex_);              // by set: what comes after it
  std::vector<bool> kept_ HEADRACE_GUARDED_BY(mutex_);                         // by set
};

// The samples in and below a folder, in the sequence in which a loader numbers them that knows this folder alone.
[[nodiscard]] std::vector<SampleIndex> samples_below(const Catalog& catalog, EntryId folder);

}  // namespace headrace::cache
