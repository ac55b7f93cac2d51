// SPDX-License-Identifier: Apache-2.0
// What comes next: what the pusher fetches, pushes and evicts, and when. Pure: no I/O, no threads, no clock.
//
//   PushPlan plan(catalog, takeover, {.budget_bytes = 8ULL << 30, .order = order});
//   while (auto sample = plan.next_fetch()) ...;         // fetch it, then
//   while (auto victim = plan.next_victim(bytes)) ...;   // evict for it,
//   if (plan.place(*sample)) ...;                        // push it, and
//   plan.on_fetched(*sample, generation, Landing::kPushed);
//
// The budget is divided (push_budget.h) between the page cache (page_cache_account.h) and the copies in the store's
// memory (held_copies.h). cache::ReadAhead plans along the order. Without an order, samples that were not seen in this
// epoch are pushed, and those that were opened are released. Where nobody tells which were seen, samples are pushed in
// the order of the catalog.
//
// Pinned samples are fetched first and stay. They take their room from the budget before the plan along the order gets
// the rest, and that plan counts none of them as held. Where they take more than they may, they are samples like others
// until there is room again.
//
// Where the samples are the records of packs (PushPlanOptions::records), all of this is about records: they are
// what is held, wanted and evicted. Nobody sees them opened. So the reader is followed by READs (record_track.h), and
// no copies are held.
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
#include "headrace/fuse/mount_stats.h"
#include "headrace/fuse/push/followed_order.h"
#include "headrace/fuse/push/held_copies.h"
#include "headrace/fuse/push/pack_records.h"
#include "headrace/fuse/push/page_cache_account.h"
#include "headrace/fuse/push/push_budget.h"
#include "headrace/fuse/push/read_evidence.h"
#include "headrace/fuse/push/record_pages.h"
#include "headrace/fuse/push/waste_watch.h"
#include "headrace/fuse/survive/takeover.h"

namespace headrace::fuse {

struct PushPlanOptions {
  std::uint64_t budget_bytes = 0;  // 0: nothing is pushed
  bool can_copy = true;            // false: the daemon has no memory of its own for samples
  OrderPosition order = {};
  // Names a sample that was not read in this epoch, each one once; for as long as the order is unknown. May be empty.
  std::function<std::optional<cache::SampleIndex>()> next_unseen = {};
  std::shared_ptr<const PackRecords> records;  // the samples are these; null: they are the catalog's
  std::uint64_t others_bytes = 0;              // of the store's memory, that the pusher leaves to others
};

// How a fetch ended. kNoRoom: it was read, but the budget fell meanwhile.
// The last two: of what next_to_copy() named.
enum class Landing : std::uint8_t { kPushed, kNoRoom, kFailedBeforePlace, kFailedAfterPlace, kCopyHeld, kCopyFailed };

class PushPlan {
 public:
  // Goes on where the takeover says that another process was.
  PushPlan(const cache::Catalog& catalog, Takeover takeover, PushPlanOptions options);
  PushPlan(const PushPlan&) = delete;  // its parts refer to pages_
  PushPlan& operator=(const PushPlan&) = delete;

  [[nodiscard]] const PageCacheAccount& pages() const { return pages_; }
  [[nodiscard]] const HeldCopies& copies() const { return copies_; }

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

  // What was fetched came from the source itself.
  void note_from_source() { ++counters_.from_source; }

  void on_opens(std::span<const cache::SampleIndex> samples);
  // A READ stands for an open: those that ask for nothing are not seen.
  void on_open_by_read(cache::SampleIndex sample);
  // A READ came for the sample, and its pages with that. If it was held, it stays held, but the store may have to hold
  // a copy of it.
  // It is counted as lost where the READ was from its start, so once at most for each pass over it. One that is on its
  // way is late, nothing more.
  void on_read(cache::SampleIndex sample, const PageRange& range);
  // Of records: a READ came for these bytes of a pack. What that tells to be read, in its sequence: along an order the
  // records that the reader has passed, and else the one that the READ was for, as far as that is plain.
  std::vector<cache::SampleIndex> on_pack_read(cache::EntryId pack, const PageRange& range);
  // Of records: which of their pages are pushed.
  [[nodiscard]] RecordPages& record_pages() { return *record_pages_; }
  // The pack is another version, and the kernel is told to forget it. Where its records lie now nobody knows, so that
  // none of them is pushed any more.
  void on_pack_changed(cache::EntryId pack);
  // Whether the sample is neither in the page cache nor on its way there.
  [[nodiscard]] bool lacks(cache::SampleIndex sample) const {
    return !pages_.is_held(sample) && !arriving_.contains(sample);
  }
  // Whether the kernel has dropped one in 32 of what was opened since there were last enough opens to tell.
  [[nodiscard]] bool take_losses();
  // An order would change what is pushed: not all samples are held, and there is a budget to hold some.
  [[nodiscard]] bool wants_order() const {
    return budget_.bytes() > 0 && pages_.held_samples() < pages_.pushable_count();
  }
  // The kernel dropped pages though there is memory: pages are to lie idle for a shorter time. False: it is as short as
  // it gets, or the budget holds all samples twice.
  bool on_pages_dropped();

  // Whether the store is to keep a copy of a sample that is fetched to be pushed.
  [[nodiscard]] bool hold_copy(cache::SampleIndex sample);
  // A lost sample of which the store is to keep a copy. It is not pushed: the READ brought back what was missing.
  [[nodiscard]] std::optional<cache::SampleIndex> next_to_copy() { return copies_.next_to_fetch(); }
  // What all copies together may take now.
  [[nodiscard]] std::uint64_t copies_limit() const { return budget_.copies_bytes_max(); }
  // A sample whose copy has to go, because the limit fell or a smaller one came; already counted as gone.
  [[nodiscard]] std::optional<cache::SampleIndex> next_to_drop() { return copies_.next_to_drop(copies_limit()); }
  // The file has changed, and the kernel is told to drop its pages. That is no loss: it is pushed again as it is now.
  // It goes on counting with its catalogued size.
  void on_changed(cache::SampleIndex sample);
  // Each is named once. All of them, or none.
  [[nodiscard]] PinOutcome pin(std::span<const cache::SampleIndex> samples);
  void unpin(std::span<const cache::SampleIndex> samples);
  void on_overflow() {
    ++counters_.overflows;
    waste_.restart();
  }
  // While no order is known: an epoch went by in which these were not read. Their room is for others.
  void let_go(std::span<const cache::SampleIndex> samples);

  // The order that is followed already: it has another epoch now. What is held of it stays.
  void set_order(const OrderPosition& order);
  // True once after an order that may be wrong, or one of its sets, was contradicted; it is not followed any more.
  [[nodiscard]] bool take_contradiction() { return followed_.take_contradiction(); }
  [[nodiscard]] const std::string& given_up() const { return followed_.given_up(); }  // the last one
  // Nothing but pins is read ahead for so many opens: it cost the source more than it saved. 0: there is no pause.
  [[nodiscard]] std::uint64_t paused_opens() const { return waste_.opens_left(); }
  // Without an order: what is neither held nor was ever to be pushed comes as well, in the catalog's order, as far as
  // there is room.
  void fill();
  void set_budget(std::uint64_t budget_bytes);
  // What memory pressure leaves of the budget, until there is none: all of it then.
  void limit_budget(std::uint64_t budget_bytes);
  [[nodiscard]] std::uint64_t budget_bytes() const { return budget_.bytes(); }
  [[nodiscard]] const std::shared_ptr<const cache::Order>& order() const { return followed_.given(); }  // null: unknown
  [[nodiscard]] std::uint64_t epoch() const { return followed_.where().epoch; }
  [[nodiscard]] std::uint64_t generation() const { return generation_; }  // changes with the order

  // Fills in the fields that are the plan's and its parts'.
  void add_stats(MountStats& stats) const;
  [[nodiscard]] PushProgress progress() const;

 private:
  struct Counters {
    std::uint64_t opens = 0;
    std::uint64_t met = 0;  // of these, what was there or on its way
    std::uint64_t overflows = 0;
    std::uint64_t lost_samples = 0;
    std::uint64_t pushed_samples = 0;
    std::uint64_t pushed_bytes = 0;
    std::uint64_t push_failures = 0;
    std::uint64_t from_source = 0;  // of what was fetched to be pushed
    std::uint64_t hits = 0;         // of what is not planned along the order
  };

  void make_plan(const OrderPosition& order);
  void adopt_held(std::span<const cache::SampleIndex> read_already);
  void give_order_up();
  void pin_indexes();
  [[nodiscard]] bool is_of_changed_pack(cache::SampleIndex sample) const;
  void open_planned(cache::SampleIndex sample);
  [[nodiscard]] FollowedOrder::Room room() const {
    return {.bytes = budget_.planned_bytes_max(), .window_bytes = budget_.window_bytes()};
  }
  [[nodiscard]] std::optional<cache::SampleIndex> candidate();
  [[nodiscard]] std::optional<cache::SampleIndex> next_pin();
  void begin_fetch(cache::SampleIndex sample);
  void fetch_pins();
  [[nodiscard]] bool has_room_for_unseen() const;
  void open_unplanned(cache::SampleIndex sample);
  void note_position();
  void note_waste();
  void take_releases();
  void divide_budget();
  void apply_budget();

  const cache::Catalog& catalog_;
  const Takeover takeover_;
  const std::function<std::optional<cache::SampleIndex>()> next_unseen_;
  const std::shared_ptr<const PackRecords> records_;  // null: the samples are the catalog's
  const std::unique_ptr<ReadEvidence> evidence_;      // null likewise
  std::unordered_set<cache::EntryId> changed_packs_;
  std::vector<SamplePages> pages_of_records_;
  PageCacheAccount pages_;
  HeldCopies copies_;
  PushBudget budget_;
  FollowedOrder followed_;
  WasteWatch waste_;                         // not of records, which are pushed along an order alone
  std::optional<RecordPages> record_pages_;  // of records
  std::uint64_t generation_ = 0;
  cache::SampleIndex listed_ = 0;                    // next in the catalog's order, for as long as nothing is known
  bool is_filling_ = false;                          // fill() has not come to the end of that
  std::uint64_t arriving_bytes_ = 0;                 // named by next_fetch(), not placed yet
  std::unordered_set<cache::SampleIndex> arriving_;  // named by next_fetch(), not pushed yet
  std::deque<cache::SampleIndex> pins_to_fetch_;     // may name samples that are held, or pinned no more
  Counters counters_;
  std::uint64_t losses_taken_ = 0;  // counters at the last take_losses()
  std::uint64_t opens_taken_ = 0;
};

}  // namespace headrace::fuse
