// SPDX-License-Identifier: Apache-2.0
// What comes next: what the pusher fetches, pushes and evicts, and when. Pure: no I/O, no threads, no clock.
//
//   PushPlan plan(catalog, takeover, {.budget_bytes = 8ULL << 30, .order = order});
//   while (auto sample = plan.next_fetch()) ...;         // fetch it, then
//   while (auto victim = plan.next_victim(bytes)) ...;   // evict for it,
//   if (plan.place(*sample)) ...;                        // push it, and
//   plan.on_fetched(*sample, generation, Landing::kPushed);
//
// The plan divides the budget between its two parts: the page cache (page_cache_account.h) and the copies in the
// store's memory (retained.h). cache::ReadAhead plans along the order. Without an order, samples that were not seen in
// this epoch are pushed, and those that were opened are released. Where nobody tells which were seen, samples are
// pushed in the order of the catalog.
//
// Some kernels drop pushed pages although nobody is short of memory: proactive reclaim takes what lay idle for a
// minute.
// - A sample that lost pages is retained as far as the budget goes beyond all samples. The store answers the next READ
//   for it. If the budget holds all samples twice, what is pushed from then on is retained, too. Under memory pressure
//   nothing is retained for this reason.
// - If the budget does not hold all samples twice, and losses are frequent, the budget is split: most of it goes to the
//   copies. What is fetched is retained as long as there is room, and pushed shortly before each use.
//
// Pinned samples are fetched first and stay. They take their room from the budget before the plan along the order gets
// the rest, and that plan counts none of them as held. Where they take more than they may, they are samples like others
// until there is room again.
//
// Where the samples are the records of one pack (PushPlanOptions::records), all of this is about records: they are
// what is held, wanted and evicted. Nobody sees them opened. So the reader is followed by READs (record_track.h), and
// no copies are retained.
//
// Thread-safety: none; one owner. Ownership: the catalog and the takeover's memory outlive it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/cache/read_ahead.h"
#include "headrace/fuse/mount_stats.h"
#include "headrace/fuse/push/order_trial.h"
#include "headrace/fuse/push/pack_records.h"
#include "headrace/fuse/push/page_cache_account.h"
#include "headrace/fuse/push/record_track.h"
#include "headrace/fuse/push/retained.h"
#include "headrace/fuse/push/set_turns.h"
#include "headrace/fuse/survive/takeover.h"

namespace headrace::fuse {

// An order and where the reader is in it.
struct OrderPosition {
  std::shared_ptr<const cache::Order> order;  // null: unknown
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;
  std::uint64_t epoch_count = UINT64_MAX;             // from `epoch` on; what comes later is not known
  std::vector<cache::SampleIndex> read_already = {};  // opens from `position` on, in their order
  bool may_be_wrong = false;                          // somebody said so: it is given up where the opens contradict it
  // An order over several sets (cache::PassOrder): `epoch` is that of each set.
};

struct PushPlanOptions {
  std::uint64_t budget_bytes = 0;  // 0: nothing is pushed
  bool can_retain = true;          // false: the daemon has no memory of its own for samples
  OrderPosition order = {};
  // Names a sample that was not read in this epoch, each one once; for as long as the order is unknown. May be empty.
  std::function<std::optional<cache::SampleIndex>()> next_unseen = {};
  std::shared_ptr<const PackRecords> records;  // the samples are these; null: they are the catalog's
};

// How a fetch ended. kNoRoom: it was read, but the budget fell meanwhile.
// The last two: of what next_to_retain() named.
enum class Landing : std::uint8_t { kPushed, kNoRoom, kFailedBeforePlace, kFailedAfterPlace, kRetained, kNotRetained };

class PushPlan {
 public:
  // Goes on where the takeover says that another process was.
  PushPlan(const cache::Catalog& catalog, Takeover takeover, PushPlanOptions options);
  PushPlan(const PushPlan&) = delete;  // read_ahead_ refers to the sizes in pages_
  PushPlan& operator=(const PushPlan&) = delete;

  [[nodiscard]] const PageCacheAccount& pages() const { return pages_; }
  [[nodiscard]] const Retained& retained() const { return retained_; }

  // What to fetch next; nullopt: nothing until something else is called.
  [[nodiscard]] std::optional<cache::SampleIndex> next_fetch();
  // What to evict before `bytes` more are pushed; already counted as gone. nullopt: there is room, or no more to gain.
  // Parts of large files go first.
  [[nodiscard]] std::optional<ReadInRanges::Slot> next_range_victim(std::uint64_t bytes) {
    return pages_.next_range_victim(bytes);
  }
  [[nodiscard]] std::optional<cache::SampleIndex> next_victim(std::uint64_t bytes);
  // Counts a fetched sample as held from now on. False: it does not fit, and is not to be pushed.
  [[nodiscard]] bool place(cache::SampleIndex sample);
  // True once for a sample whose attributes went with an eviction.
  [[nodiscard]] bool take_stale(cache::SampleIndex sample) { return pages_.take_stale(sample); }
  // `generation`: of the time when next_fetch() named it.
  void on_fetched(cache::SampleIndex sample, std::uint64_t generation, Landing landing);

  void on_opens(std::span<const cache::SampleIndex> samples);
  // A READ came for the sample, and its pages with that. If it was held, it stays held, but it may have to be retained.
  // It is counted as lost where the READ was from its start, so once at most for each pass over it. One that is on its
  // way is late, nothing more.
  void on_read(cache::SampleIndex sample, const PageRange& range);
  // Of records: a READ came for these bytes of the pack.
  void on_pack_read(const PageRange& range);
  // Whether the READ of one page of a record that was named by next_fetch() is to show that the reader is there: that
  // page is not pushed. Asked once for each.
  [[nodiscard]] bool takes_beacon(cache::SampleIndex record);
  // What is to go of an evicted record: not the pages that it shares with one that is held.
  [[nodiscard]] PageRange pages_to_drop(cache::SampleIndex record) const;
  // The pack is another version, and the kernel is told to forget it. Where its records lie now nobody knows, so
  // nothing is pushed any more.
  void on_pack_changed();
  // Whether the sample is neither in the page cache nor on its way there.
  [[nodiscard]] bool lacks(cache::SampleIndex sample) const {
    return !pages_.is_held(sample) && !arriving_.contains(sample);
  }
  // Whether the kernel has dropped one in 32 of what was opened since there were last enough opens to tell.
  [[nodiscard]] bool take_losses();
  // An order would change what is pushed: not all samples are held, and there is a budget to hold some.
  [[nodiscard]] bool wants_order() const {
    return budget_bytes_ > 0 && pages_.held_samples() < pages_.pushable_count();
  }
  // The kernel dropped pages though there is memory: pages are to lie idle for a shorter time. False: it is as short as
  // it gets, or the budget holds all samples twice.
  bool on_pages_dropped();

  // Whether the store is to keep a copy of a sample that is fetched to be pushed.
  [[nodiscard]] bool retain(cache::SampleIndex sample);
  // A lost sample of which the store is to keep a copy. It is not pushed: the READ brought back what was missing.
  [[nodiscard]] std::optional<cache::SampleIndex> next_to_retain() { return retained_.next_to_fetch(); }
  // What all copies together may take now: with what the page cache holds, the budget at most.
  [[nodiscard]] std::uint64_t retained_limit() const;
  // A sample whose copy has to go, because the limit fell or a smaller one came; already counted as gone.
  [[nodiscard]] std::optional<cache::SampleIndex> next_to_drop() { return retained_.next_to_drop(retained_limit()); }
  // The file has changed, and the kernel is told to drop its pages. That is no loss: it is pushed again as it is now.
  // It goes on counting with its catalogued size.
  void on_changed(cache::SampleIndex sample);
  // Each is named once. All of them, or none.
  [[nodiscard]] PinOutcome pin(std::span<const cache::SampleIndex> samples);
  void unpin(std::span<const cache::SampleIndex> samples);
  void on_overflow() { ++counters_.overflows; }
  // While no order is known: an epoch went by in which these were not read. Their room is for others.
  void let_go(std::span<const cache::SampleIndex> samples);

  // The order that is followed already: it has another epoch now. What is held of it stays.
  void set_order(const OrderPosition& order);
  // True once after an order that may be wrong, or one of its sets, was contradicted; it is not followed any more.
  [[nodiscard]] bool take_contradiction() { return std::exchange(contradicted_, false); }
  [[nodiscard]] const std::string& given_up() const { return given_up_; }  // the last one
  void set_budget(std::uint64_t budget_bytes);
  // What memory pressure leaves of the budget, until there is none: all of it then.
  void limit_budget(std::uint64_t budget_bytes);
  [[nodiscard]] std::uint64_t budget_bytes() const { return budget_bytes_; }
  [[nodiscard]] const std::shared_ptr<const cache::Order>& order() const { return given_order_; }  // null: unknown
  [[nodiscard]] std::uint64_t epoch() const { return takeover_.head->epoch; }
  [[nodiscard]] std::uint64_t generation() const { return generation_; }  // changes with the order

  // Fills in the fields that are the plan's and its parts'.
  void add_stats(MountStats& stats) const;
  [[nodiscard]] PushProgress progress() const;

 private:
  struct Counters {
    std::uint64_t opens = 0;
    std::uint64_t overflows = 0;
    std::uint64_t lost_samples = 0;
    std::uint64_t pushed_samples = 0;
    std::uint64_t pushed_bytes = 0;
    std::uint64_t push_failures = 0;
    std::uint64_t hits = 0;  // these three: of plans before the present one, and of what was not planned
    std::uint64_t late = 0;
    std::uint64_t strays = 0;
    std::uint64_t orders_given_up = 0;
  };

  void make_plan(const OrderPosition& order);
  void track_from(std::uint64_t epoch, std::uint64_t position);
  void follow_stray(cache::SampleIndex record);
  [[nodiscard]] std::uint64_t beacon_every() const;
  [[nodiscard]] OrderPosition with_own_passes(OrderPosition order);
  void put_to_trial(const OrderPosition& order);
  [[nodiscard]] bool is_contradicted_by(cache::SampleIndex sample, bool is_stray);
  void give_order_up();
  void give_set_up(std::size_t set);
  [[nodiscard]] bool is_planned(cache::SampleIndex sample) const;
  void open_planned(cache::SampleIndex sample);
  void go_to(const SetTurns::Turn& turn);
  void count_plan();
  [[nodiscard]] std::optional<cache::SampleIndex> candidate();
  [[nodiscard]] std::optional<cache::SampleIndex> next_pin();
  void begin_fetch(cache::SampleIndex sample);
  void fetch_pins();
  [[nodiscard]] bool has_room_for_unseen() const;
  void open_unplanned(cache::SampleIndex sample);
  void note_position();
  void look_at_pace();
  void take_releases();

  // How the budget is divided.
  [[nodiscard]] bool is_split() const { return page_cache_share_ > 1; }
  [[nodiscard]] std::uint64_t page_cache_budget() const;
  [[nodiscard]] std::uint64_t pinnable_bytes() const;
  [[nodiscard]] std::uint64_t planned_bytes_max() const;
  [[nodiscard]] std::uint64_t window_bytes() const;
  [[nodiscard]] bool holds_all_twice() const;
  [[nodiscard]] bool keeps_copies() const;
  void divide_budget();
  void apply_budget();

  const cache::Catalog& catalog_;
  const Takeover takeover_;
  const std::function<std::optional<cache::SampleIndex>()> next_unseen_;
  const bool can_retain_;
  const std::shared_ptr<const PackRecords> records_;  // null: the samples are the catalog's
  std::vector<SamplePages> pages_of_records_;
  PageCacheAccount pages_;
  Retained retained_;

  std::uint64_t full_budget_bytes_;
  std::uint64_t budget_bytes_;                       // less under memory pressure
  std::uint64_t page_cache_share_ = 1;               // one part in so many of the budget is the page cache's
  bool drops_pages_ = false;                         // the kernel has dropped some
  std::shared_ptr<const cache::Order> given_order_;  // null: unknown
  std::shared_ptr<const cache::Order> order_;        // what read_ahead_ goes along
  std::unique_ptr<cache::ReadAhead> read_ahead_;     // null: unplanned, or nothing to push
  std::optional<RecordTrack> track_;                 // of records, beside read_ahead_
  std::uint64_t since_beacon_ = 0;                   // records fetched since one had a beacon
  std::shared_ptr<cache::PassOrder> passes_;         // the order, where it is over several sets; else null
  std::optional<SetTurns> turns_;                    // likewise
  std::vector<OrderTrial> trials_;                   // of an order that may be wrong: one for each set
  EpochPace pace_;
  bool contradicted_ = false;
  std::string given_up_;  // what the opens contradicted last
  std::uint64_t generation_ = 0;
  cache::SampleIndex listed_ = 0;                    // next in the catalog's order, for as long as nothing is known
  std::uint64_t arriving_bytes_ = 0;                 // named by next_fetch(), not placed yet
  std::unordered_set<cache::SampleIndex> arriving_;  // named by next_fetch(), not pushed yet
  std::deque<cache::SampleIndex> pins_to_fetch_;     // may name samples that are held, or pinned no more
  Counters counters_;
  std::uint64_t losses_taken_ = 0;  // counters at the last take_losses()
  std::uint64_t opens_taken_ = 0;
};

}  // namespace headrace::fuse
