// SPDX-License-Identifier: Apache-2.0
// Cursors walk the schedule ahead of the reader, one for each of its workers (LaneChoice), and plan each place: a
// sample that is not there is claimed (from the resident part while that has room, else from the window) and queued to
// be fetched. `pending` counts the planned places of a sample that the reader has not passed; when it falls to zero the
// sample has done its work: a resident one stays, one of the window becomes resident if there is room, or is released.
// The cursors wait when the window is full.
#include "headrace/cache/read_ahead.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "headrace/cache/ahead/lane_choice.h"
#include "headrace/cache/ahead/reader_track.h"
#include "headrace/cache/ahead/schedule.h"

namespace headrace::cache {
namespace {

// What the window takes, the resident part lacks, in every epoch; so no more than rides out the pauses of a source that
// keeps up on average. One that does not has what it can do in flight, and the rest of a larger window stays empty.
constexpr std::uint64_t kWindowShare = 32;
// 1 GiB ahead outlasts every stall.
constexpr std::uint64_t kWindowBytesMax = std::uint64_t{1} << 30;
// Of a small budget a larger part, or there would be too few reads in flight to keep a source busy, or to have the next
// ones of each worker there.
constexpr std::uint64_t kWindowSamplesMin = 64;
constexpr std::uint64_t kWindowSamplesPerLane = 32;  // at most: a worker opens its batch in one go
constexpr std::uint64_t kWindowShareMost = 4;
// Of large ones the next one of each worker is enough, and of so few that a budget holds each counts.
constexpr std::uint64_t kWindowLargeMin = 4;

enum class Presence : std::uint8_t {
  kAbsent,
  kQueued,    // claimed, waiting for next_fetch()
  kInFlight,  // claimed, being fetched
  kHeld,      // claimed and there
  kFailed,    // not there, and not tried again before the reader passes it
};

struct Mark {
  Presence presence : 3 = Presence::kAbsent;
  bool resident : 1 = false;  // claimed from the resident part, not from the window
  std::uint8_t pending : 4 = 0;
};
static_assert(sizeof(Mark) == 1);

// The cursors wait at a sample that so many places behind them need already; only tiny data sets get there.
constexpr std::uint8_t kPendingMax = 15;
// How many samples one exchange looks at. Where exchanging pays, one in ten or more will do.
constexpr unsigned kExchangeLooks = 64;
// A millisecond or two; the pressure watch may change the budget each second.
constexpr std::size_t kSizesLookedAt = 65'536;

WorkerLayout workers_of(const Order& order, const ReadAheadOptions& options) {
  // One worker: strictly in order, and known to be.
  return options.in_order ? WorkerLayout{.batch = 1, .workers = 1, .prefetch_factor = 1} : order.workers();
}

std::uint64_t samples_per_lane(const WorkerLayout& workers) {
  return std::clamp<std::uint64_t>(workers.batch / std::max(workers.ranks, 1U), 1, kWindowSamplesPerLane);
}

}  // namespace

struct ReadAhead::Impl {
  Impl(const Order& order_in, const SampleSizes& sizes_in, const ReadAheadOptions& options);

  std::optional<SampleIndex> next_fetch();
  bool on_fetched(SampleIndex sample, bool success);
  bool adopt(SampleIndex sample);
  bool on_read(SampleIndex sample);
  void on_lost(SampleIndex sample);
  std::vector<SampleIndex> take_releases();
  void seek(std::uint64_t epoch, std::uint64_t position);
  void set_limits(std::uint64_t budget_bytes, std::uint64_t window_bytes);
  [[nodiscard]] std::uint64_t default_window(std::uint64_t budget_bytes) const;
  void set_budget(std::uint64_t budget_bytes, std::uint64_t window_bytes);

  bool claim(SampleIndex sample);
  bool claim_resident(SampleIndex sample);
  void give_back(SampleIndex sample);
  void let_go(SampleIndex sample);
  void enqueue(SampleIndex sample);

  bool plan_next();
  bool plan(SampleIndex sample);
  void pass(const ReaderTrack::Passed& passed_place);
  void settle(SampleIndex sample);
  bool exchange(SampleIndex sample);
  [[nodiscard]] bool is_worth_keeping(SampleIndex sample) const;
  [[nodiscard]] std::uint64_t largest_of_the_small() const;
  void count_read(SampleIndex sample);
  bool follow_read(SampleIndex sample);
  void unplan(SampleIndex sample);
  void unplan_all();
  void replan();
  void shrink_resident();

  const SampleSizes& sizes;
  const std::uint64_t total_bytes;  // of all samples
  const std::uint64_t window_samples_per_lane;
  Schedule schedule;
  ReaderTrack track;
  LaneChoice lanes;
  std::uint64_t resident_limit = 0;
  std::uint64_t window_limit = 0;
  std::uint64_t small_max = 0;  // samples up to this size fit the resident part all together
  std::uint64_t resident_bytes = 0;
  std::uint64_t window_bytes = 0;
  std::uint64_t planned = 0;  // places between reader and cursors: the sum of all `pending`, and of all `ahead`
  std::vector<Mark> marks;
  SampleIndex exchange_hand = 0;            // goes round all samples
  std::deque<SampleIndex> queue;            // may name samples that are no longer kQueued
  std::vector<SampleIndex> releases;        // to be dropped; may name samples that were claimed again
  std::vector<SampleIndex> spare;           // while replanning: held, but claimed by nobody
  std::vector<ReaderTrack::Passed> passed;  // scratch of follow_read()
  State counters;                           // reads, hits, late, strays
};

ReadAhead::Impl::Impl(const Order& order, const SampleSizes& sizes_in, const ReadAheadOptions& options)
    : sizes(sizes_in),
      total_bytes(sizes.total()),
      window_samples_per_lane(samples_per_lane(workers_of(order, options))),
      schedule(order, {.sample_count = sizes.size(),
                       .first_epoch = options.first_epoch,
                       .epoch_count = options.epoch_count,
                       .workers = workers_of(order, options)}),
      track(schedule, workers_of(order, options), order.length_max(options.first_epoch)),
      lanes(schedule, schedule.lanes() > 1 ? std::max(workers_of(order, options).ranks, 1U) : 1),
      marks(sizes.size()) {
  set_limits(options.budget_bytes, options.window_bytes);
}

void ReadAhead::Impl::set_limits(std::uint64_t budget, std::uint64_t window) {
  window_limit = window != 0 ? std::min(window, budget) : default_window(budget);
  resident_limit = budget - window_limit;
  small_max = largest_of_the_small();
  if (total_bytes > budget) return;
  resident_limit = budget;  // everything can stay: nothing is left for a window to do
  window_limit = 0;
}

// Told from some of the samples: nothing breaks where it is a little off.
std::uint64_t ReadAhead::Impl::largest_of_the_small() const {
  const auto stride = static_cast<SampleIndex>(sizes.size() / kSizesLookedAt + 1);
  const auto fit = [this, stride](std::uint64_t size) {
    std::uint64_t bytes = 0;
    for (SampleIndex i = 0; i < sizes.size(); i += stride) bytes += sizes[i] <= size ? sizes[i] : 0;
    return bytes * stride <= resident_limit;
  };
  std::uint64_t fits = 0;
  std::uint64_t does_not = std::uint64_t{1} << 44;  // more than any file that is counted in full
  while (does_not - fits > 1) {
    const std::uint64_t middle = (fits + does_not) / 2;
    (fit(middle) ? fits : does_not) = middle;
  }
  return fits;
}

std::uint64_t ReadAhead::Impl::default_window(std::uint64_t budget) const {
  if (sizes.empty()) return 0;
  const std::uint64_t mean_bytes = total_bytes / sizes.size();
  const std::uint64_t samples = mean_bytes < kLargeSampleBytes
                                    ? std::max(kWindowSamplesMin, window_samples_per_lane * lanes.size())
                                    : std::max(kWindowLargeMin, lanes.size());
  const std::uint64_t least = mean_bytes * samples;
  return std::min({std::max(budget / kWindowShare, least), budget / kWindowShareMost, kWindowBytesMax});
}

// Takes the bytes of a sample from the resident part or from the window.
bool ReadAhead::Impl::claim(SampleIndex sample) {
  if (claim_resident(sample)) return true;
  if (window_bytes + sizes[sample] > window_limit) return false;
  window_bytes += sizes[sample];
  return true;
}

bool ReadAhead::Impl::claim_resident(SampleIndex sample) {
  if (resident_bytes + sizes[sample] > resident_limit) return false;
  // After set_budget() what is in flight may overfill the window for a while.
  if (resident_bytes + window_bytes + sizes[sample] > resident_limit + window_limit) return false;
  marks[sample].resident = true;
  resident_bytes += sizes[sample];
  return true;
}

void ReadAhead::Impl::give_back(SampleIndex sample) {
  (marks[sample].resident ? resident_bytes : window_bytes) -= sizes[sample];
  marks[sample].resident = false;
}

void ReadAhead::Impl::let_go(SampleIndex sample) {
  marks[sample].presence = Presence::kAbsent;
  releases.push_back(sample);
}

void ReadAhead::Impl::enqueue(SampleIndex sample) {
  if (!claim(sample)) return;  // no room: the reader will have to fetch it by itself
  marks[sample].presence = Presence::kQueued;
  queue.push_back(sample);
}

std::optional<SampleIndex> ReadAhead::Impl::next_fetch() {
  while (true) {
    while (queue.empty()) {
      if (!plan_next()) return std::nullopt;
    }
    const SampleIndex sample = queue.front();
    queue.pop_front();
    if (marks[sample].presence != Presence::kQueued) continue;
    marks[sample].presence = Presence::kInFlight;
    return sample;
  }
}

// False: the window is full, or the schedule ends.
bool ReadAhead::Impl::plan_next() {
  const std::optional<Place> place = lanes.next(track.low());
  if (!place) return false;
  schedule.draw_ahead_if_partial();
  const bool is_ahead = !track.is_passed(*place);
  if (is_ahead && !plan(*schedule.at(*place))) return false;
  lanes.on_planned(is_ahead);
  return true;
}

bool ReadAhead::Impl::plan(SampleIndex sample) {
  Mark& mark = marks[sample];
  if (mark.pending == kPendingMax) return false;
  const bool unclaimed = mark.presence == Presence::kHeld && !mark.resident && mark.pending == 0;
  if (unclaimed && !claim(sample)) return false;
  if (mark.presence == Presence::kAbsent) {
    enqueue(sample);
    // What can never fit must not hold up the rest.
    if (mark.presence == Presence::kAbsent && sizes[sample] <= window_limit) return false;
  }
  ++mark.pending;
  ++planned;
  return true;
}

// The reader is through with a place.
void ReadAhead::Impl::pass(const ReaderTrack::Passed& passed_place) {
  schedule.note_passed(passed_place.place, passed_place.sample);
  if (!lanes.on_passed(passed_place.lane, passed_place.place)) return;
  --marks[passed_place.sample].pending;
  --planned;
  settle(passed_place.sample);
}

// What becomes of a sample after a place that needed it, or after its fetch.
void ReadAhead::Impl::settle(SampleIndex sample) {
  Mark& mark = marks[sample];
  if (mark.presence == Presence::kFailed) {
    mark.presence = Presence::kAbsent;
    if (mark.pending > 0) enqueue(sample);
  }
  if (mark.pending > 0) return;
  if (mark.presence == Presence::kQueued) {
    give_back(sample);
    mark.presence = Presence::kAbsent;
  } else if (mark.presence == Presence::kHeld && !mark.resident) {
    give_back(sample);
    if (!claim_resident(sample) && !exchange(sample)) let_go(sample);
  }
}

// Where epochs leave samples out (one rank of several, sampling with replacement), a resident sample that does not come
// up in this epoch any more, nor in the next, makes way for one that does. With the order of two epochs at hand this is
// most of what Belady's MIN could do: 0.27 hits for one of four private caches of a tenth, where MIN has 0.31.
//
// Where they do not, all samples are needed equally often, and for the room of a large one several small ones stay: as
// many bytes come from the source, but in fewer reads. Within an epoch or two the resident samples are the small ones.
bool ReadAhead::Impl::exchange(SampleIndex sample) {
  if (!is_worth_keeping(sample)) return false;
  for (unsigned looks = 0; looks < kExchangeLooks; ++looks) {
    exchange_hand = exchange_hand + 1 < marks.size() ? exchange_hand + 1 : 0;
    const Mark& mark = marks[exchange_hand];
    if (!mark.resident || mark.presence != Presence::kHeld || mark.pending > 0) continue;
    if (is_worth_keeping(exchange_hand)) continue;
    give_back(exchange_hand);
    let_go(exchange_hand);
    if (claim_resident(sample)) return true;
  }
  return false;
}

bool ReadAhead::Impl::is_worth_keeping(SampleIndex sample) const {
  return schedule.leaves_samples_out() ? schedule.is_needed(sample) : sizes[sample] <= small_max;
}

bool ReadAhead::Impl::on_fetched(SampleIndex sample, bool success) {
  Mark& mark = marks[sample];
  if (mark.presence != Presence::kInFlight) return false;
  if (success && (mark.resident || window_bytes <= window_limit)) {
    mark.presence = Presence::kHeld;
    settle(sample);
    return mark.pending == 0;
  }
  give_back(sample);
  if (success) {
    let_go(sample);  // the budget was cut while it was on its way
  } else {
    mark.presence = mark.pending > 0 ? Presence::kFailed : Presence::kAbsent;
  }
  return true;
}

// What the plan waits for has come. Anything else is resident: where each sample is read once per epoch one is as good
// as another, and this one costs no fetch.
bool ReadAhead::Impl::adopt(SampleIndex sample) {
  Mark& mark = marks[sample];
  if (mark.presence == Presence::kQueued || mark.presence == Presence::kInFlight) {
    mark.presence = Presence::kHeld;
    settle(sample);
  } else if (mark.presence == Presence::kAbsent) {
    static_cast<void>(schedule.at(track.low()));  // draws the epoch, which tells what it leaves out
    schedule.draw_ahead_if_partial();
    const bool is_read = !schedule.leaves_samples_out() || schedule.is_needed(sample);
    if (is_read && claim_resident(sample)) mark.presence = Presence::kHeld;
  }
  return mark.presence == Presence::kHeld;
}

void ReadAhead::Impl::on_lost(SampleIndex sample) {
  if (marks[sample].presence != Presence::kHeld) return;
  give_back(sample);
  marks[sample].presence = Presence::kAbsent;
  if (marks[sample].pending > 0) enqueue(sample);
}

void ReadAhead::Impl::count_read(SampleIndex sample) {
  ++counters.reads;
  if (marks[sample].presence == Presence::kHeld) ++counters.hits;
  if (marks[sample].presence == Presence::kInFlight) ++counters.late;
}

bool ReadAhead::Impl::on_read(SampleIndex sample) {
  HEADRACE_ASSERT(sample < marks.size());
  count_read(sample);
  if (follow_read(sample)) return true;
  ++counters.strays;
  const std::optional<ReaderTrack::Found> found = track.find_reader();
  if (!found) return false;
  if (found->epoch) {
    seek(*found->epoch, 0);
  } else {
    unplan_all();
    track.move_to(*found->place, {});
    replan();
  }
  for (const SampleIndex read : found->reads) follow_read(read);
  return false;
}

// False: a stray.
bool ReadAhead::Impl::follow_read(SampleIndex sample) {
  if (!track.on_read(sample, passed)) return false;
  for (const ReaderTrack::Passed& each : passed) pass(each);
  return true;
}

// Takes every plan back, as if the cursors were at the reader. What the window held is spare until replan().
void ReadAhead::Impl::unplan_all() {
  for (std::uint64_t i = 0; i < lanes.size(); ++i) {
    Place place = track.low();
    while (const std::optional<Place> next = schedule.first_in_lane(place, i)) {
      if (*next >= lanes.planned_to(i)) break;
      if (!track.is_passed(*next)) unplan(*schedule.at(*next));
      place = schedule.after_in_lane(*next).value_or(schedule.epoch_end(*next));
    }
  }
  lanes.restart(track.low());
}

void ReadAhead::Impl::unplan(SampleIndex sample) {
  Mark& mark = marks[sample];
  --planned;
  if (--mark.pending > 0) return;
  if (mark.presence == Presence::kHeld && !mark.resident) {
    give_back(sample);
    spare.push_back(sample);
  } else {
    settle(sample);
  }
}

// Plans from the reader on until all that was spare has a use again or the budget is full, and lets go of the rest.
void ReadAhead::Impl::replan() {
  lanes.restart(track.low());
  do {
    while (!spare.empty() && marks[spare.back()].pending > 0) spare.pop_back();
  } while (!spare.empty() && plan_next());
  for (const SampleIndex sample : spare) {
    if (marks[sample].pending == 0 && !claim_resident(sample)) let_go(sample);
  }
  spare.clear();
}

void ReadAhead::Impl::seek(std::uint64_t epoch, std::uint64_t position) {
  unplan_all();
  std::vector<Place> opened;
  const Place place = schedule.seek(epoch, position, opened);
  track.move_to(place, opened);
  replan();
}

void ReadAhead::Impl::set_budget(std::uint64_t budget, std::uint64_t window) {
  unplan_all();
  set_limits(budget, window);
  shrink_resident();
  replan();
}

// What was claimed again before it was dropped is there still.
std::vector<SampleIndex> ReadAhead::Impl::take_releases() {
  std::erase_if(releases, [&](SampleIndex sample) {
    if (marks[sample].presence == Presence::kQueued) marks[sample].presence = Presence::kHeld;
    return marks[sample].presence != Presence::kAbsent;
  });
  return std::exchange(releases, {});
}

// After unplan_all(): any sample is as good as another, being needed once per epoch.
void ReadAhead::Impl::shrink_resident() {
  for (SampleIndex sample = 0; sample < marks.size() && resident_bytes > resident_limit; ++sample) {
    Mark& mark = marks[sample];
    if (!mark.resident) continue;
    if (mark.presence == Presence::kHeld) {
      give_back(sample);
      let_go(sample);
    } else {  // in flight: it counts until it lands, and is released then
      mark.resident = false;
      resident_bytes -= sizes[sample];
      window_bytes += sizes[sample];
    }
  }
}

ReadAhead::ReadAhead(const Order& order, const SampleSizes& sizes, ReadAheadOptions options)
    : impl_(std::make_unique<Impl>(order, sizes, options)) {}
ReadAhead::~ReadAhead() = default;

std::optional<SampleIndex> ReadAhead::next_fetch() {
  return impl_->next_fetch();
}
bool ReadAhead::on_fetched(SampleIndex sample, bool success) {
  return impl_->on_fetched(sample, success);
}
bool ReadAhead::adopt(SampleIndex sample) {
  return impl_->adopt(sample);
}
bool ReadAhead::on_read(SampleIndex sample) {
  return impl_->on_read(sample);
}
void ReadAhead::on_lost(SampleIndex sample) {
  impl_->on_lost(sample);
}
void ReadAhead::seek(std::uint64_t epoch, std::uint64_t position) {
  impl_->seek(epoch, position);
}

void ReadAhead::set_budget(std::uint64_t budget_bytes, std::uint64_t window_bytes) {
  impl_->set_budget(budget_bytes, window_bytes);
}

std::vector<SampleIndex> ReadAhead::take_releases() {
  return impl_->take_releases();
}
bool ReadAhead::holds(SampleIndex sample) const {
  return impl_->marks[sample].presence == Presence::kHeld;
}

ReadAhead::State ReadAhead::state() const {
  State state = impl_->counters;
  const Schedule::Position position = impl_->track.position();
  state.epoch = position.epoch;
  state.position = position.position;
  state.ahead = impl_->planned - std::min<std::uint64_t>(impl_->planned, impl_->queue.size());
  state.held_bytes = impl_->resident_bytes + impl_->window_bytes;
  state.resident_bytes = impl_->resident_bytes;
  return state;
}

}  // namespace headrace::cache
