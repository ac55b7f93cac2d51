// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/ahead/reader_track.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace headrace::cache {
namespace {

// A file that was read a moment ago may be opened again: by its loader, which looks at it first, or by another job that
// has the same order. Of so many reads in the zone, or a 32nd of an epoch, in which few of a lost reader's opens lie.
constexpr std::uint64_t kRereadMax = 1024;

// So many reads beyond what the workers can be apart show that the reader went on; fewer may be somebody else's.
constexpr unsigned kReadsBeyond = 4;
// What one search goes by: the last reads.
constexpr std::size_t kReadsMin = 4;
constexpr std::size_t kReadsMax = 8;
// Reads that lie together by accident more rarely than this show where the reader is.
constexpr double kAccident = 1e-5;
// After so many reads in sequence the next strays are searched for at once again: a search costs about a pass over the
// epoch, and must stay rare when two jobs share a mount: never more than one for a 32nd of an epoch.
constexpr std::uint64_t kReadsOfConfidence = 1024;
// After so many in sequence, more than most batches have, the reader is where it was found. Else there are two jobs, of
// which each is found in turn: the next search takes twice as many strays.
constexpr std::uint64_t kReadsOfFind = 64;

// How far apart two reads can be that are next to each other in the schedule.
std::uint64_t apart_max(const WorkerLayout& workers, std::uint64_t epoch_length) {
  // 131 072 places: 16 workers with 4 batches of 2 048 each. Bounds the memory of the zone to some 20 MB.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 17;
  constexpr std::uint64_t kLeast = 64;  // reader threads that overtake one another
  if (workers.workers > 0) {
    // The loader has at most workers x prefetch_factor batches under way, which touch one group of batches more.
    const std::uint64_t batches = std::uint64_t{workers.workers} * (std::uint64_t{workers.prefetch_factor} + 1);
    return std::clamp(batches * workers.batch, kLeast, kMost);
  }
  // Nobody said how the loader works: 4 workers with 2 batches of 512 in a large data set, less in a small one.
  return std::clamp(epoch_length / 8, kLeast, std::uint64_t{4096});
}

// How far apart strands can be. Ranks of a training wait for each other at every step; those of a benchmark, or with
// much drawn ahead, do not. Half an epoch, so that they are never taken for being in different ones.
std::uint64_t drift_max(std::uint64_t strands, std::uint64_t apart, std::uint64_t epoch_length) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 16;  // bounds the zone as above
  return strands > 1 ? std::max(apart, std::min(epoch_length / 2, kMost)) : apart;
}

// How many reads it takes: all but the first of them must lie within `apart` of the epoch's places. Four of a million
// places with the default layout, seven where an epoch is short.
std::uint64_t reads_needed(std::uint64_t apart, std::uint64_t epoch_length) {
  if (apart >= epoch_length) return kReadsMax;
  const double share = static_cast<double>(apart) / static_cast<double>(epoch_length);
  const auto needed = static_cast<std::size_t>(1 + std::ceil(std::log(kAccident) / std::log(share)));
  return std::clamp(needed, kReadsMin, kReadsMax);
}

}  // namespace

ReaderTrack::ReaderTrack(Schedule& schedule, const WorkerLayout& workers, std::uint64_t epoch_length)
    : schedule_(schedule),
      apart_max_(apart_max(workers, epoch_length)),
      drift_max_(drift_max(schedule.strands(), apart_max_, epoch_length)),
      reads_needed_(reads_needed(apart_max_, epoch_length)),
      strands_(schedule.strands()),
      just_read_max_(std::min(epoch_length / 32, kRereadMax)),
      search_interval_(std::max<std::uint64_t>(epoch_length / 32, 64)),
      search_at_(reads_needed_) {}

bool ReaderTrack::is_passed(Place place) const {
  if (place < low_) return true;
  return place - low_ < zone_.size() && zone_[place - low_].passed;
}

Schedule::Position ReaderTrack::position() const {
  return schedule_.lowest_position(low_, [this](Place place) { return !is_passed(place); });
}

bool ReaderTrack::on_read(SampleIndex sample, std::vector<Passed>& passed) {
  passed.clear();
  extend_zone();
  const std::optional<Place> place = expected_place(sample);
  if (!place && just_read_.contains(sample)) return true;
  note_recent(sample);
  if (!place) {
    ++doubt_;
    matched_in_row_ = 0;
    return false;
  }
  // Not zero: in a short epoch a quarter of what a lost reader opens lies in the zone by accident.
  doubt_ -= std::min<std::uint64_t>(doubt_, 1);
  if (++matched_in_row_ == kReadsOfConfidence) search_at_ = reads_needed_;
  if (matched_in_row_ == kReadsOfFind) finds_in_vain_ = 0;
  note_just_read(sample);
  pass(*place, passed);
  if (doubt_ < reads_needed_) {  // else the reader is elsewhere, and this was an accident
    give_up_behind(*place, passed);
    give_up_slow_strands(*place, passed);
  }
  leave_passed();
  return true;
}

// Each once: one file that is opened again and again shows no place.
void ReaderTrack::note_recent(SampleIndex sample) {
  std::erase(recent_, sample);
  if (recent_.size() == kReadsMax) recent_.erase(recent_.begin());
  recent_.push_back(sample);
}

void ReaderTrack::note_just_read(SampleIndex sample) {
  if (just_read_max_ == 0) return;
  if (just_read_in_turn_.size() == just_read_max_) {
    const auto oldest = just_read_.find(just_read_in_turn_.front());
    if (--oldest->second == 0) just_read_.erase(oldest);
    just_read_in_turn_.pop_front();
  }
  just_read_in_turn_.push_back(sample);
  ++just_read_[sample];
}

// The first unread place of the sample that its strand can have got to. Two lengths: one within which reads are normal,
// one in which they show that places before were skipped.
std::optional<Place> ReaderTrack::expected_place(SampleIndex sample) {
  const auto chain = chains_.find(sample);
  if (chain == chains_.end()) return std::nullopt;
  Place place = chain->second.first;
  while (place >= low_of(slot(place).strand) + 2 * apart_max_) {
    if (slot(place).next_same == 0) return std::nullopt;
    place = slot(place).next_same;
  }
  return place;
}

void ReaderTrack::extend_zone(const std::vector<Place>& opened) {
  while (zone_.size() < apart_max_ + drift_max_) {
    const Place place = low_ + zone_.size();
    const std::optional<SampleIndex> sample = schedule_.at(place);
    if (!sample) return;
    const bool passed = std::binary_search(opened.begin(), opened.end(), place);
    const auto lane = static_cast<std::uint16_t>(schedule_.lane_of(place));
    const auto strand = static_cast<std::uint16_t>(schedule_.strand_of(place, lane));
    zone_.push_back({.sample = *sample, .lane = lane, .strand = strand, .passed = passed});
    link_strand(place);
    if (passed) continue;
    const auto [chain, is_first] = chains_.try_emplace(*sample, Chain{.first = place, .last = place});
    if (is_first) continue;
    slot(chain->second.last).next_same = place;
    chain->second.last = place;
  }
}

// The strand finds its next place without a look at those of the others between.
void ReaderTrack::link_strand(Place place) {
  if (strands_.size() == 1) return;
  const std::uint16_t strand = slot(place).strand;
  const Place before = std::exchange(strands_[strand].last, place);
  if (before < place && before >= low_ && slot(before).strand == strand)
    slot(before).next_of_strand = static_cast<std::uint32_t>(place - before);
}

void ReaderTrack::pass(Place place, std::vector<Passed>& passed) {
  Slot& passing = slot(place);
  const auto found = chains_.find(passing.sample);
  HEADRACE_ASSERT(!passing.passed && found != chains_.end());
  Chain& chain = found->second;
  passing.passed = true;
  passed.push_back({.place = place, .sample = passing.sample, .lane = passing.lane});
  if (chain.first == place && passing.next_same == 0) {
    chains_.erase(found);
  } else if (chain.first == place) {
    chain.first = passing.next_same;
  } else {  // given up while another strand has an earlier place with the same sample
    Place before = chain.first;
    while (slot(before).next_same != place) before = slot(before).next_same;
    slot(before).next_same = passing.next_same;
    if (chain.last == place) chain.last = before;
  }
}

// Gives up what the strand can no longer be about to read, now that it has read `place`.
void ReaderTrack::give_up_behind(Place place, std::vector<Passed>& passed) {
  const std::uint16_t strand = slot(place).strand;
  const Place low = low_of(strand);
  const Place epoch_start = schedule_.epoch_start(place);
  const bool beyond = place >= low + apart_max_ || epoch_start > low;
  if (!beyond || ++strands_[strand].reads_beyond < kReadsBeyond) return;
  const Place limit = std::max(epoch_start, place - std::min(place, apart_max_));
  for (Place skipped = low; skipped < limit; ++skipped) {
    if (slot(skipped).strand == strand && !slot(skipped).passed) pass(skipped, passed);
  }
}

// Gives up what others have left unread so far behind: a rank or worker that ended, or reads elsewhere.
void ReaderTrack::give_up_slow_strands(Place place, std::vector<Passed>& passed) {
  if (strands_.size() == 1 || place < low_ + drift_max_ || ++reads_beyond_ < kReadsBeyond) return;
  for (Place skipped = low_; skipped < place - drift_max_; ++skipped) {
    if (!slot(skipped).passed) pass(skipped, passed);
  }
}

Place ReaderTrack::low_of(std::uint16_t strand) {
  Strand& where = strands_[strand];
  const Place before = std::exchange(where.low, std::max(where.low, low_));
  while (where.low < low_ + zone_.size()) {
    const Slot& here = slot(where.low);
    if (here.strand == strand && !here.passed) break;
    where.low += here.strand == strand && here.next_of_strand > 0 ? here.next_of_strand : 1;
  }
  if (where.low != before) where.reads_beyond = 0;
  return where.low;
}

void ReaderTrack::leave_passed() {
  if (!zone_.front().passed) return;
  reads_beyond_ = 0;
  while (!zone_.empty() && zone_.front().passed) {
    zone_.pop_front();
    ++low_;
  }
  schedule_.let_go_before(low_);
}

std::optional<ReaderTrack::Found> ReaderTrack::find_reader() {
  if (doubt_ < search_at_ || recent_.size() < reads_needed_) return std::nullopt;
  const std::span<const SampleIndex> last = std::span(recent_).last(reads_needed_);
  Found found{.place = schedule_.locate(last, apart_max_), .epoch = std::nullopt, .reads = {last.begin(), last.end()}};
  // Many epochs to choose from: takes as many reads as there are.
  if (!found.place && recent_.size() == kReadsMax) found.epoch = schedule_.find_beginning(recent_, apart_max_);
  const bool is_found = found.place || found.epoch;
  search_at_ = is_found ? std::min(reads_needed_ << finds_in_vain_, search_interval_)
                        : doubt_ + std::min(doubt_, search_interval_);
  if (is_found && search_at_ < search_interval_) ++finds_in_vain_;
  return is_found ? std::optional(std::move(found)) : std::nullopt;
}

void ReaderTrack::move_to(Place place, const std::vector<Place>& opened) {
  low_ = place;
  zone_.clear();
  chains_.clear();
  doubt_ = 0;
  matched_in_row_ = 0;
  reads_beyond_ = 0;
  strands_.assign(strands_.size(), {.low = place});
  extend_zone(opened);
  schedule_.let_go_before(low_);
}

}  // namespace headrace::cache
