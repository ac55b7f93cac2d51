// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/track.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace headrace::cache {
namespace {

// Numbers of opens at which candidates are tried: early and often, then rarely: each costs 0.1 s.
constexpr std::size_t kAttempts[] = {16, 24, 32, 48, 64, 128, 256, 512, 1024, 4096, SIZE_MAX};

[[nodiscard]] std::size_t attempt_after(std::size_t size) {
  return static_cast<std::size_t>(std::ranges::upper_bound(kAttempts, size) - kAttempts);
}

constexpr std::string_view kListing = "sequential";

// What was read before, once more: the places are those of the opens, which tell nothing of batches and workers.
[[nodiscard]] bool is_replay(const Match& match) {
  return match.base && match.spec == kListing;
}

[[nodiscard]] bool is_same_order(const Match& match, const Match& other) {
  return match.spec == other.spec && match.base == other.base;
}

// A file opened twice, or by several ranks (repeated augmentation), comes again within so many opens.
constexpr std::uint64_t kJustNow = 256;

// With every further open the filter of the seed search lets more wrong seeds pass; 256 see the beginning of the order
// under 64 workers, a sixteenth of a small data set leaves one seed in 4000.
[[nodiscard]] std::uint64_t opens_for_seed_search(std::uint64_t n) {
  return std::clamp<std::uint64_t>(n / 16, 48, 256);
}

// With fewer samples an epoch does not hold the bits that one of 2^32 seeds needs before most of it was opened, and
// then the filter of the search lets one seed in ten pass: minutes of each core, for nothing.
constexpr std::uint64_t kSeedSearchSamplesMin = 150;

// The end of an epoch may repeat its beginning: lists are padded to whole batches of all ranks.
[[nodiscard]] std::uint64_t opens_to_believe_repetition(std::uint64_t n) {
  return std::min<std::uint64_t>(128, n / 8);
}

// Once most samples were opened, the beginning of a right and of a wrong order look the same. A reader that is faster
// than the search may get there before it is asked for.
[[nodiscard]] OpenSet telling_opens(const OpenSet& opens, std::uint64_t n) {
  const std::uint64_t most = std::max({std::uint64_t{128}, std::min<std::uint64_t>(256, n / 2), n / 4});
  if (opens.size() <= most) return opens;
  OpenSet first;
  for (std::size_t i = 0; i < most; ++i) first.add(opens.samples()[i]);
  return first;
}

// Opens after which ranks and workers are looked at anew: at a lock they may have been starting.
constexpr std::size_t kSettled[] = {64, 256, kReadingOpens};

[[nodiscard]] int unexpected_in(std::uint64_t history, int last) {
  return std::popcount(last == 64 ? history : history & ((std::uint64_t{1} << last) - 1));
}

// How far from the reader opens may lie: generous, as long as another order would still be noticed.
[[nodiscard]] double reach_of(const Fit& fit, std::uint64_t first, std::uint64_t n) {
  constexpr double kWidestLoader = 65'536;  // 8 ranks x 8 workers x batches of 256, twice over, with room
  // Positions up to which 97 % of the opens reach: strays lie anywhere.
  const std::uint64_t last = std::max(fit.positions[fit.positions.size() * 97 / 100], first);
  const auto span = static_cast<double>(last - first + 1);
  return std::max({std::min(kWidestLoader, static_cast<double>(n) / 8), 2 * span, 32.0});
}

}  // namespace

std::optional<PreparedMatch> prepare_match(Match match, std::uint64_t n) {
  const auto order = make_candidate(match.spec, match.base, n);
  if (!order) return std::nullopt;
  const auto samples = (*order)->epoch(match.epoch);
  if (!samples) return std::nullopt;
  PreparedMatch prepared{std::move(match), std::vector<SampleIndex>(n, PreparedMatch::kNowhere)};
  if (prepared.match.spec.starts_with("recorded:")) {
    prepared.epochs = 1;
    while ((*order)->length(prepared.match.epoch + prepared.epochs) > 0) ++prepared.epochs;
  }
  for (std::size_t i = samples->size(); i-- > 0;) prepared.position_of[(*samples)[i]] = static_cast<SampleIndex>(i);
  return prepared;
}

std::string Track::Lock::order_spec() const {
  return read_length == 0 ? spec : fmt::format("first:samples={},of={}", read_length, spec);
}

Track::Track(const SampleRange& range)
    : range_(range),
      seen_(range.count),
      set_(range.count),
      recent_(std::clamp<std::uint64_t>(range.count / 4, 64, kJustNow), PreparedMatch::kNowhere) {}

void Track::on_open(SampleIndex local) {
  const bool was_just_now = std::ranges::find(recent_, local) != recent_.end();
  if (is_repetition(local, was_just_now)) {
    ++repeated_opens_;
    return;
  }
  if (!was_just_now) set_.on_open(local);  // else a rank may finish the epoch before
  recent_[recent_at_] = local;
  recent_at_ = (recent_at_ + 1) % recent_.size();
  const bool expected = lock_ ? fits_lock(local) : !seen_[local];
  history_ = history_ << 1 | (expected ? 0 : 1);
  unexpected_opens_ += expected ? 0 : 1;
  expected ? on_expected(local) : on_unexpected(local);
}

// Opened a moment ago already: by another rank, or twice by the same. What the end of an epoch and the beginning of the
// next have in common is none.
bool Track::is_repetition(SampleIndex local, bool was_just_now) const {
  if (was_just_now && (lock_ || seen_[local])) return true;
  return lock_ && reach_tells_epochs_apart() && seen_[local] && within_reach(local);
}

bool Track::reach_tells_epochs_apart() const {
  return reach_ * 4 < static_cast<double>(range_.count);
}

bool Track::within_reach(SampleIndex local) const {
  return position_of_[local] != PreparedMatch::kNowhere && distance_of(local) <= reach_;
}

// From where its strand is.
double Track::distance_of(SampleIndex local) const {
  const std::uint64_t position = position_of_[local];
  return std::abs(static_cast<double>(position) - progress_[reading_.strand_of(position)]);
}

bool Track::fits_lock(SampleIndex local) const {
  return !seen_[local] && within_reach(local);
}

// Further with each open, and drawn slowly to where the opens are: keeps up when events were lost.
void Track::advance_to(std::uint64_t position) {
  constexpr double kPull = 1.0 / 32;
  double& progress = progress_of(position);
  progress += static_cast<double>(progress_.size()) + (static_cast<double>(position) - progress) * kPull;
}

void Track::start_at(double position) {
  progress_.assign(reading_.strands(), position);
}

void Track::on_expected(SampleIndex local) {
  seen_[local] = true;
  ++seen_count_;
  const bool is_new = window_.add(local);
  if (lock_ && reads_beyond_repeats()) {
    never_repeats_ = true;
    describe_again();
  }
  if (lock_) {
    advance_to(position_of_[local]);
    if (length_.on_read(positions_read())) {
      lock_->read_length = 0;
      ++generation_;
    }
    if (is_new && !settled_ && std::ranges::find(kSettled, window_.size()) != std::end(kSettled)) describe_again();
  } else {
    sequence_.push_back(local);
  }
  constexpr int kStrays = 16;  // of 64: not what a new epoch or another order looks like
  if (suspects_.size() > 0 && unexpected_in(history_, 64) <= kStrays) clear_suspects();
}

void Track::on_unexpected(SampleIndex local) {
  suspects_.add(local);
  if (!lock_ && epoch_has_turned()) {
    set_.learn(sequence_);
    begin_epoch(opens_since_first_unexpected());
  }
  if (lock_ && lock_has_failed()) drop_lock();
}

// Within an epoch no sample comes twice. After it, as many as the epoch has read of all samples: 60 % of that is
// enough.
bool Track::epoch_has_turned() const {
  const double read = static_cast<double>(seen_count_) / static_cast<double>(range_.count);
  constexpr double kLeastRead = 0.05;
  constexpr int kLeastRepeats = 8;
  const int needed = std::max(kLeastRepeats, static_cast<int>(std::ceil(32 * read * 0.6)));
  return read >= kLeastRead && unexpected_in(history_, 32) >= needed;
}

// Most opens do not fit, and no other epoch or order was found that they fit. Nothing is searched for while another
// part is being read; then there is no answer for what has come since.
bool Track::lock_has_failed() const {
  const std::uint64_t patience = lock_->known_epochs == 1 ? 32 : 128;
  // The epoch is over, and what the next one is shows after some dozen opens, also where that is a good part of it.
  const std::uint64_t short_epoch = has_read_all() ? std::max<std::uint64_t>(range_.count / 2, 16) : 16;
  const bool answered = suspects_answered_ && suspects_.size() < kAttempts[suspects_attempt_];
  return answered && suspects_.size() >= std::min(patience, std::max<std::uint64_t>(range_.count / 8, short_epoch)) &&
         unexpected_in(history_, 64) >= 40;
}

bool Track::has_read_all() const {
  if (lock_ && lock_->read_length > 0) return positions_read() * 10 >= lock_->read_length * 9;
  const std::uint64_t samples = lock_ && lock_->base ? lock_->base->size() : range_.count;
  return seen_count_ * 10 >= samples * 9;
}

void Track::on_events_lost() {
  is_heard_whole_ = false;
  if (lock_) return;  // progress_ finds its way back
  begin_epoch({});
}

std::vector<SampleIndex> Track::opens_since_first_unexpected() const {
  const int count = 64 - std::countl_zero(history_ & 0xffffffffU);
  std::vector<SampleIndex> opens;
  for (std::size_t back = static_cast<std::size_t>(count); back > 0; --back) {
    opens.push_back(recent_[(recent_at_ + recent_.size() - back) % recent_.size()]);
  }
  return opens;
}

void Track::begin_epoch(const std::vector<SampleIndex>& opens) {
  if (!lock_ && seen_count_ * 2 > range_.count) finished_ = std::move(sequence_);
  ++epoch_number_;
  if (epoch_number_ > given_up_until_) forget_given_up();
  left_at_ = lock_ && match_.spec == kListing ? progress_ : std::vector<double>();
  seen_.assign(range_.count, false);
  seen_count_ = 0;
  is_heard_whole_ = true;
  unexpected_opens_ = 0;
  repeated_opens_ = 0;
  next_unseen_ = 0;
  sequence_.clear();
  window_.clear();
  for (const SampleIndex local : opens) {
    if (seen_[local]) continue;
    seen_[local] = true;
    ++seen_count_;
    window_.add(local);
    sequence_.push_back(local);
  }
  history_ = 0;
  window_id_ = ++last_id_;
  window_attempt_ = 0;
  window_tried_ = 0;
  seed_search_asked_ = false;
  clear_suspects();
}

void Track::clear_suspects() {
  suspects_.clear();
  suspects_id_ = ++last_id_;
  suspects_attempt_ = 0;
  suspects_tried_ = 0;
  suspects_answered_ = false;
}

void Track::drop_lock() {
  const bool epoch_was_over = seen_count_ * 10 >= range_.count * 9;
  if (!epoch_was_over) ++drops_;
  never_repeats_ = false;
  // What was read in sequence was a block of many, a class: longer ones would have to show, not just two neighbours.
  if (match_.spec == kListing)
    stretch_min_ = epoch_was_over ? 0 : std::clamp<std::uint64_t>(4 * std::max(stretch_min_, seen_count_), 64, 4096);
  const std::vector<SampleIndex> opens = suspects_.samples();
  begin_epoch(opens);  // before the lock goes: the epoch that ends was not unknown
  lock_.reset();
  length_.forget();
  left_at_ = {};
  position_of_ = {};
  ++generation_;
}

void Track::give_lock_up() {
  if (!lock_) return;
  constexpr unsigned kRarest = 6;  // one in 64 epochs, as of searches in vain
  given_up_ = match_.spec;
  given_up_base_ = match_.base;
  times_given_up_ = std::min(times_given_up_ + 1, kRarest);
  given_up_until_ = epoch_number_ + (std::uint64_t{1} << times_given_up_);
  match_ = {};  // predicts nothing
  drop_lock();
}

void Track::learn_anew() {
  give_lock_up();
  forget_given_up();
  times_given_up_ = 0;
}

void Track::forget_given_up() {
  given_up_.clear();
  given_up_base_.reset();
}

bool Track::wants_search() const {
  if (!lock_) return window_.size() >= kAttempts[window_attempt_];
  return suspects_.size() >= kAttempts[suspects_attempt_] && unexpected_in(history_, 16) >= 12;
}

Track::Request Track::request_with(const OpenSet& opens, std::uint64_t window) const {
  Request request{.window = window,
                  .epoch_number = epoch_number_ + (lock_ ? 1 : 0),
                  .n = range_.count,
                  .opens = telling_opens(opens, range_.count),
                  .opened = opens.size()};
  if (lock_ && suspects_are_new()) request.predicted.push_back({match_.spec, match_.epoch, 1, false, match_.base});
  for (const Match* before : {&match_, &previous_}) {
    if (before->spec.empty()) continue;
    for (CandidateGroup& group : successors_of(before->spec, before->epoch)) {
      if (group.again && opens.size() < opens_to_believe_repetition(range_.count)) continue;
      // Blocks of a list that are shuffled would look like the list from there on.
      if (before->base && before->spec != kListing && group.spec == kListing) continue;
      group.base = before->base;
      request.predicted.push_back(std::move(group));
    }
  }
  if (!lock_) {
    request.read_before = set_.samples();
    request.reads_the_same = set_.is_believed();
  }
  request.links = links_;
  request.epochs_since_link = request.epoch_number - link_epoch_;
  return request;
}

Track::Request Track::take_request() {
  if (lock_) {
    suspects_attempt_ = attempt_after(suspects_.size());
    suspects_answered_ = false;
    Request request = request_with(suspects_, suspects_id_);
    request.tried = std::exchange(suspects_tried_, suspects_.size());
    return request;
  }
  window_attempt_ = attempt_after(window_.size());
  Request request = request_with(window_, window_id_);
  request.tried = std::exchange(window_tried_, window_.size());
  return request;
}

bool Track::wants_seed_search() const {
  return !lock_ && !seed_search_asked_ && epoch_number_ >= seed_search_from_ && range_.count >= kSeedSearchSamplesMin &&
         window_.size() >= opens_for_seed_search(range_.count);
}

Track::Request Track::take_seed_request() {
  seed_search_asked_ = true;
  return request_with(window_, window_id_);
}

// An order that no seed explains will hardly be another kind in the next epoch: the searches, minutes each, become
// rarer.
void Track::on_no_seed(const Request& request) {
  constexpr unsigned kRarest = 6;  // one in 64 epochs: another job may have begun
  seed_searches_in_vain_ = std::min(seed_searches_in_vain_ + 1, kRarest);
  seed_search_from_ = request.epoch_number + (std::uint64_t{1} << seed_searches_in_vain_);
}

void Track::on_no_match(const Request& request) {
  if (request.window != suspects_id_) return;
  suspects_answered_ = true;
  if (lock_ && lock_has_failed()) drop_lock();
}

void Track::on_link(const StreamLink& link, std::uint64_t epoch_number) {
  if (link_epoch_ != epoch_number) links_.clear();
  link_epoch_ = epoch_number;
  links_.push_back(link);
}

// Opens that do not fit and were not read yet: the reader is further ahead than was thought, or it is another order. A
// new epoch begins with samples that were read in this one.
bool Track::suspects_are_new() const {
  const auto read = std::ranges::count_if(suspects_.samples(), [&](SampleIndex local) { return seen_[local]; });
  return static_cast<std::size_t>(read) * 2 < suspects_.size();
}

// Whoever reads the listing comes to no place without having read what lies before it, but to its beginning. A stretch
// that begins all by itself is a block of another order: clips, classes. (Of a random order any place may be next.)
bool Track::suspects_go_on() const {
  if (match_.spec != kListing || match_.base) return true;
  SampleIndex first = PreparedMatch::kNowhere;
  for (const SampleIndex local : suspects_.samples()) {
    if (!seen_[local]) first = std::min(first, local);
  }
  // Workers and ranks that read side by side leave gaps until all have come by.
  const std::uint64_t gap = suspects_.size() * reading_.replicas;
  if (first <= gap) return true;
  // One rank has begun the next epoch while this one still reads the one before.
  const auto is_near = [&](double place) {
    return std::abs(static_cast<double>(first) - place) <= static_cast<double>(gap);
  };
  if (std::ranges::any_of(left_at_, is_near)) return true;
  const auto before = seen_.begin() + first;
  return std::find(before - static_cast<std::ptrdiff_t>(gap), before, true) != before;
}

// The suspects belong to the epoch under way.
void Track::reach_suspects() {
  if (!suspects_go_on()) return drop_lock();
  const bool is_listing = match_.spec == kListing && !match_.base;
  double last = 0;
  std::vector<double> distances;
  for (const SampleIndex local : suspects_.samples()) {
    if (position_of_[local] == PreparedMatch::kNowhere || seen_[local]) continue;
    seen_[local] = true;
    ++seen_count_;
    last = static_cast<double>(position_of_[local]);
    distances.push_back(distance_of(local));
  }
  if (!is_listing && !distances.empty()) {  // as far as most are: a stray lies anywhere
    const auto most = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() * 9 / 10);
    std::nth_element(distances.begin(), most, distances.end());
    reach_ = std::max(reach_, 1.5 * *most);
  }
  // A wide reach would have room for several blocks of another order.
  if (is_listing) start_at(last);
  history_ = 0;
  clear_suspects();
}

// The listing, where it turned out to be another order's block before: each block fits it at some place, and a few that
// lie close together fit it like one. So it has to begin at its beginning.
bool Track::is_distrusted(const Match& match, std::size_t opens) const {
  constexpr std::uint64_t kFirstOpens = 32;
  if (match.spec != kListing || stretch_min_ == 0) return false;
  const bool begins_later = !match.base && first_position(match.fit) > kFirstOpens;
  return opens < stretch_min_ || begins_later || (!match.base && !is_one_stretch(match.fit, range_.count));
}

bool Track::on_match(const Request& request, PreparedMatch prepared) {
  const bool was_given_up = prepared.match.spec == given_up_ && prepared.match.base == given_up_base_;
  if (was_given_up || is_distrusted(prepared.match, request.opened)) {
    on_no_match(request);
    return false;
  }
  if (lock_ && request.window == suspects_id_) {
    const bool same = prepared.match.base == match_.base &&
                      is_same_permutation(prepared.match.spec, prepared.match.epoch, match_.spec, match_.epoch);
    if (same && suspects_are_new()) {
      reach_suspects();
      return lock_.has_value();
    }
    if (same && request.opened < opens_to_believe_repetition(range_.count)) return false;
    const std::vector<SampleIndex> opens = suspects_.samples();
    if (is_same_order(prepared.match, match_) && prepared.match.epoch == match_.epoch + 1) note_end_of_epoch();
    begin_epoch(opens);
  } else if (lock_ || request.window != window_id_) {
    return false;
  }
  adopt(std::move(prepared), request.opened);
  return true;
}

void Track::adopt(PreparedMatch prepared, std::size_t opens) {
  Match& match = prepared.match;
  const bool same_order = lock_ && is_same_order(match, match_);
  const bool goes_on = same_order && match.epoch > match_.epoch;
  Lock next{.spec = {},
            .epoch = match.epoch,
            .bits = match.fit.bits,
            .found_by = match.found_by,
            .opens = opens,
            .base = match.base};
  // Another rule that agreed so far: the loader is the same, and few opens tell less of it than those before.
  const bool same_loader = goes_on || (lock_ && match.found_by == "prediction" && match.base == match_.base);
  const bool guess = match.found_by == "seed search" || (same_order && !goes_on);
  next.known_epochs = guess ? 1 : prepared.epochs;
  next.position = first_position(match.fit);
  if (!goes_on) ++locks_;
  if (!goes_on) length_.forget();
  next.read_length = length_.samples();
  if (!same_order && !match_.spec.empty()) previous_ = match_;
  position_of_ = std::move(prepared.position_of);
  if (!same_loader) reading_ = is_replay(match) ? Reading{} : read_off(positions_opened());  // else it stays as it was
  next.spec = is_replay(match) ? match.spec
              : goes_on        ? lock_->spec
                               : spec_as_read(match.spec, reading_, opens_per_sample());
  const bool is_as_before = lock_ && lock_->known_epochs == next.known_epochs && lock_->read_length == next.read_length;
  if (!goes_on || !is_as_before) ++generation_;
  settled_ = same_loader || is_replay(match) || opens >= kReadingOpens;
  reach_ = reach_of(match.fit, next.position, range_.count);
  start_at(static_cast<double>(next.position) + static_cast<double>(seen_count_) * reading_.positions_per_open());
  next.position = static_cast<std::uint64_t>(static_cast<double>(next.position) / reading_.positions_per_open());
  match_ = std::move(match);
  lock_ = std::move(next);
  sequence_ = {};
  seed_searches_in_vain_ = 0;
  seed_search_from_ = 0;
  if (match_.link) links_ = {*match_.link};
  clear_suspects();
}

// Of the order as it is read here.
std::uint64_t Track::positions_read() const {
  return lock_->position + seen_count_;
}

// Of repetitions only the first is counted, which tells no position. Ranks that read the listing, as evaluations do,
// may be an epoch apart. And who leaves positions out is further than was counted: a node of several that takes whole
// batches in turn, a program that keeps samples itself. Where another job reads as well, the end may be that one's.
void Track::note_end_of_epoch() {
  // Where opens may lie anywhere, most of another job's are expected.
  const std::uint64_t expected_least = reach_tells_epochs_apart() ? 4 : 16;  // times as many as others
  const std::uint64_t others = unexpected_opens_ - std::min<std::uint64_t>(unexpected_opens_, suspects_.size());
  if (others * expected_least > seen_count_) return;
  if (lock_->base || match_.spec == kListing || lock_->spec.starts_with("ra-sampler:")) return length_.forget();
  constexpr double kFurther = 1.1;
  const double reached = *std::ranges::max_element(progress_) / reading_.positions_per_open();
  const bool leaves_out = reached > kFurther * static_cast<double>(positions_read() + kSettled[0]);
  if (leaves_out || !is_heard_whole_) return length_.forget();
  length_.on_epoch(positions_read(),
                   static_cast<std::uint64_t>(static_cast<double>(range_.count) / reading_.positions_per_open()));
}

// Who repeats samples three times reads a third of them in an epoch. Three jobs that read the same order, or a loader
// that opens each file three times, read all.
bool Track::reads_beyond_repeats() const {
  return lock_->spec.starts_with("ra-sampler:") && seen_count_ > range_.count / 3 + range_.count / 32 + kSettled[0];
}

double Track::opens_per_sample() const {
  if (never_repeats_) return 1;
  const auto distinct = static_cast<double>(std::max<std::uint64_t>(seen_count_, 1));
  return (distinct + static_cast<double>(repeated_opens_)) / distinct;
}

// In the sequence of the opens.
std::vector<std::uint64_t> Track::positions_opened() const {
  std::vector<std::uint64_t> positions;
  for (const SampleIndex local : window_.samples()) {
    if (position_of_[local] != PreparedMatch::kNowhere) positions.push_back(position_of_[local]);
    if (positions.size() == kReadingOpens) break;
  }
  return positions;
}

// What describes the reading was read off few opens; now there are more.
void Track::describe_again() {
  settled_ = window_.size() >= kReadingOpens;
  const Reading before = std::exchange(reading_, read_off(positions_opened()));
  if (reading_.strands() != before.strands()) start_at(*std::ranges::max_element(progress_));
  std::string spec = spec_as_read(match_.spec, reading_, opens_per_sample());
  if (spec == lock_->spec) return;
  lock_->spec = std::move(spec);
  ++generation_;
}

std::optional<SampleIndex> Track::next_unseen() {
  const Indices& before = set_.samples();
  const std::uint64_t first_other = before ? before->size() : 0;
  const std::uint64_t end = first_other + (set_.is_believed() ? 0 : range_.count);
  while (next_unseen_ < end) {
    const std::uint64_t at = next_unseen_++;
    const bool is_other = at >= first_other;
    const auto candidate = is_other ? static_cast<SampleIndex>(at - first_other) : (*before)[first_other - 1 - at];
    if (!seen_[candidate] && !(is_other && set_.contains(candidate))) return candidate;
  }
  return std::nullopt;
}

std::vector<SampleIndex> Track::opens_of_epoch() const {
  if (!lock_) return sequence_;
  std::vector<SampleIndex> by_position(range_.count, PreparedMatch::kNowhere);
  for (std::uint64_t local = 0; local < range_.count; ++local) {
    // A sample that an order of repetitions has beyond n of them stays out: it is fetched once more at worst.
    if (seen_[local] && position_of_[local] < range_.count)
      by_position[position_of_[local]] = static_cast<SampleIndex>(local);
  }
  std::erase(by_position, PreparedMatch::kNowhere);
  return by_position;
}

std::vector<SampleIndex> Track::take_finished_epoch() {
  return std::exchange(finished_, {});
}

}  // namespace headrace::cache
