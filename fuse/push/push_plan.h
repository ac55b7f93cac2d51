// SPDX-License-Identifier: Apache-2.0
// Decides what the pusher pushes and evicts, and keeps the account of what the page cache holds.
// Pure: no I/O, no threads, no clock.
//
//   PushPlan plan(catalog, takeover, {.budget_bytes = 8ULL << 30, .order = order});
//   while (auto sample = plan.next_fetch()) ...;         // fetch it, then
//   while (auto victim = plan.next_victim(bytes)) ...;   // evict for it,
//   if (plan.place(*sample)) ...;                        // push it, and
//   plan.on_fetched(*sample, generation, Landing::kPushed);
//
// ReadAhead plans along the order. What it releases stays in the page cache until its room is needed, because a file is
// released when it is opened, which is before it is read. Without an order, samples not seen in this epoch are pushed
// and those opened released; where nobody tells which were seen, samples in the order of the catalog.
//
// Pages that come with a READ are counted as well, and are the first to go: what was just read is used again an epoch
// later. The last 32 samples read stay, on top of the budget: their readers may be at it still.
//
// Where the kernel drops pushed pages although nobody is short of memory (proactive reclaim takes what lay idle for a
// minute), a sample that lost some is retained in the daemon's own memory, as far as the budget goes beyond all
// samples: a READ for what is lost next is answered from there. Where the budget holds all samples twice, what is
// pushed from then on is retained, too. Under memory pressure nothing is retained for that.
//
// Where the budget does not hold all samples twice and losses are frequent, most of it is moved into the daemon's
// memory: what is fetched is retained there as long as there is room, and pushed shortly before each use. Each is read
// once per epoch, so that a retained sample makes way only for a smaller one: as many bytes come from the source, but
// in fewer reads.
//
// Thread-safety: none; one owner. Ownership: catalog and the takeover's memory outlive it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/cache/read_ahead.h"
#include "headrace/fuse/mount.h"
#include "headrace/fuse/survive/takeover.h"

namespace headrace::fuse {

// An order and where the reader is in it.
struct OrderPosition {
  std::shared_ptr<const cache::Order> order;  // null: unknown
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;
  std::uint64_t epoch_count = UINT64_MAX;             // from `epoch` on; what comes later is not known
  std::vector<cache::SampleIndex> read_already = {};  // opens from `position` on, in their order
};

struct PushPlanOptions {
  std::uint64_t budget_bytes = 0;  // 0: nothing is pushed
  bool can_retain = true;          // false: the daemon has no memory of its own for samples
  OrderPosition order = {};
  // Names a sample that was not read in this epoch, each one once; for as long as the order is unknown. May be empty.
  std::function<std::optional<cache::SampleIndex>()> next_unseen = {};
};

// How a fetch ended. kNoRoom: it was read, but the budget fell meanwhile.
// The last two: of what next_to_retain() named.
enum class Landing : std::uint8_t { kPushed, kNoRoom, kFailedBeforePlace, kFailedAfterPlace, kRetained, kNotRetained };

class PushPlan {
 public:
  // Goes on where the takeover says that another process was.
  PushPlan(const cache::Catalog& catalog, Takeover takeover, PushPlanOptions options);
  PushPlan(const PushPlan&) = delete;  // read_ahead_ refers to sizes_
  PushPlan& operator=(const PushPlan&) = delete;

  // What to fetch next; nullopt: nothing until something else is called.
  [[nodiscard]] std::optional<cache::SampleIndex> next_fetch();
  // To be evicted before `bytes` more are pushed; already counted as gone. nullopt: there is room, or no more to gain.
  [[nodiscard]] std::optional<cache::SampleIndex> next_victim(std::uint64_t bytes);
  // Counts a fetched sample as held from now on. False: it does not fit, and is not to be pushed.
  [[nodiscard]] bool place(cache::SampleIndex sample);
  // True once for a sample whose attributes went with an eviction.
  [[nodiscard]] bool take_stale(cache::SampleIndex sample);
  // `generation`: of the time when next_fetch() named it.
  void on_fetched(cache::SampleIndex sample, std::uint64_t generation, Landing landing);

  void on_opens(std::span<const cache::SampleIndex> samples);
  // A READ came for it, and its pages with that. A sample that was held stays held, but may have to be retained, and is
  // counted as lost if it was from its start, so once at most for each pass over it. One that is on its way is late,
  // nothing more.
  void on_read(cache::SampleIndex sample, bool from_start);
  // A lost sample to be fetched into the daemon's memory, and not pushed: the READ brought back what was missing.
  [[nodiscard]] std::optional<cache::SampleIndex> next_to_retain();
  // Whether the kernel has dropped one in 32 of what was opened since there were last enough opens to tell.
  [[nodiscard]] bool take_losses();
  // An order would change what is pushed: not all samples are held, and there is a budget to hold some.
  [[nodiscard]] bool wants_order() const { return budget_bytes_ > 0 && counters_.held_samples < pushable_count_; }
  // The kernel dropped pages though there is memory: pages are to lie idle for a shorter time. False: it is as short as
  // it gets, or the budget holds all samples twice.
  bool on_pages_dropped();
  // Whether the daemon is to retain what is fetched of a sample to be pushed. Counts it from then on, until it is
  // dropped; it may exceed the limit until next_to_drop() has named what makes way for it. O(log n).
  [[nodiscard]] bool retain(cache::SampleIndex sample);
  [[nodiscard]] bool is_retained(cache::SampleIndex sample) const {
    return retained_.contains({sizes_[sample], sample});
  }
  // What may be retained now: together with what the page cache holds, the budget at most.
  [[nodiscard]] std::uint64_t retained_limit() const;
  // A retained sample that has to go, the largest of all, because the limit fell or a smaller one came; already counted
  // as gone.
  [[nodiscard]] std::optional<cache::SampleIndex> next_to_drop();
  // What is retained of it, or about to be, is no longer so.
  void on_changed(cache::SampleIndex sample) { drop_retained(sample); }
  void on_overflow() { ++counters_.overflows; }

  void set_order(const OrderPosition& order);
  void set_budget(std::uint64_t budget_bytes);
  // What memory pressure leaves of the budget, until there is none: all of it then.
  void limit_budget(std::uint64_t budget_bytes);
  [[nodiscard]] std::uint64_t budget_bytes() const { return budget_bytes_; }
  [[nodiscard]] const std::shared_ptr<const cache::Order>& order() const { return given_order_; }  // null: unknown
  [[nodiscard]] std::uint64_t epoch() const { return takeover_.head->epoch; }
  [[nodiscard]] std::uint64_t generation() const { return generation_; }  // changes with the order
  [[nodiscard]] bool must_retain() const { return !to_retain_.empty(); }
  // More is held than the budget allows, and some of it may go.
  [[nodiscard]] bool must_evict() const { return must_evict_read_in(0) || (is_over(0) && !released_.empty()); }

  [[nodiscard]] std::uint64_t sample_bytes(cache::SampleIndex sample) const {
    return sizes_[sample];
  }  // in whole pages
  void add_stats(MountStats& stats) const;
  [[nodiscard]] PushProgress progress() const;

 private:
  void adopt_holdings();
  void make_plan(const OrderPosition& order);
  [[nodiscard]] bool is_split() const { return page_cache_share_ > 1; }
  [[nodiscard]] std::uint64_t page_cache_budget() const;
  [[nodiscard]] std::uint64_t usable_budget() const;
  [[nodiscard]] std::uint64_t window_bytes() const { return is_split() ? usable_budget() : 0; }
  [[nodiscard]] std::uint64_t bytes_of_copies() const;
  [[nodiscard]] bool holds_all_twice() const;
  [[nodiscard]] bool keeps_copies() const;
  void apply_budget();
  [[nodiscard]] bool start_retaining(cache::SampleIndex sample);
  void drop_retained(cache::SampleIndex sample);
  [[nodiscard]] bool has_larger_retained(cache::SampleIndex sample) const;
  [[nodiscard]] std::uint64_t retained_bytes_of(cache::SampleIndex sample) const;
  [[nodiscard]] bool can_be_pushed(cache::SampleIndex sample) const;
  [[nodiscard]] std::uint64_t count_pushable() const;
  [[nodiscard]] bool has_room_for_unseen() const;
  [[nodiscard]] std::optional<cache::SampleIndex> candidate();
  void open_unplanned(cache::SampleIndex sample);
  void note_position();
  void take_releases();

  // The account of the page cache.
  void hold(cache::SampleIndex sample);
  void forget(cache::SampleIndex sample);
  void release(cache::SampleIndex sample);
  void keep(cache::SampleIndex sample);
  void queue_for_eviction(cache::SampleIndex sample);
  [[nodiscard]] bool is_over(std::uint64_t bytes) const { return counters_.held_bytes + bytes > page_cache_budget(); }
  void count_read_in(cache::SampleIndex sample);
  void forget_read_in(cache::SampleIndex sample);
  [[nodiscard]] bool must_evict_read_in(std::uint64_t bytes) const {
    return read_in_.size() > kReadInLeast && is_over(counters_.read_in_bytes + bytes);
  }

  // A reader whose file's pages go while it copies them has to ask for them again. 32: twice the readers that a
  // machine's loaders are expected to have in the middle of a file at one time.
  static constexpr std::size_t kReadInLeast = 32;

  const cache::Catalog& catalog_;
  const Takeover takeover_;
  const std::vector<std::uint32_t> sizes_;  // of each sample in the page cache; at most UINT32_MAX
  const std::uint64_t total_bytes_;         // their sum
  const std::uint64_t copies_bytes_;        // of what the daemon takes to retain all; UINT64_MAX: it cannot
  const std::uint64_t pushable_count_;
  const std::function<std::optional<cache::SampleIndex>()> next_unseen_;

  const bool can_retain_;
  std::uint64_t full_budget_bytes_;
  std::uint64_t budget_bytes_;          // less under memory pressure
  std::uint64_t page_cache_share_ = 1;  // one part in so many of the budget is the page cache's
  std::set<std::pair<std::uint32_t, cache::SampleIndex>> retained_;  // by size; 48 bytes each
  std::deque<cache::SampleIndex> to_retain_;                         // counted as retained, not fetched yet
  bool drops_pages_ = false;                                         // the kernel has dropped some
  std::shared_ptr<const cache::Order> given_order_;                  // null: unknown
  std::shared_ptr<const cache::Order> order_;                        // what read_ahead_ goes along
  std::unique_ptr<cache::ReadAhead> read_ahead_;                     // null: unplanned, or nothing to push
  std::uint64_t generation_ = 0;
  std::deque<cache::SampleIndex> released_;          // oldest first; may name samples that are gone or wanted again
  std::deque<cache::SampleIndex> read_in_;           // oldest first; may name samples that are gone or pushed since
  cache::SampleIndex listed_ = 0;                    // next in the catalog's order, for as long as nothing is known
  std::uint64_t released_bytes_ = 0;                 // held, and to go when room is needed
  std::uint64_t arriving_bytes_ = 0;                 // named by next_fetch(), not placed yet
  std::unordered_set<cache::SampleIndex> arriving_;  // named by next_fetch(), not pushed yet
  MountStats counters_;
  std::uint64_t losses_taken_ = 0;  // counters at the last take_losses()
  std::uint64_t opens_taken_ = 0;
};

}  // namespace headrace::fuse
