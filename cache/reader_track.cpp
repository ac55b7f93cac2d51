// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/reader_track.h"

#include <algorithm>

namespace headrace::cache {
namespace {

// So many reads beyond what the workers can be apart show that the reader went on; fewer may be somebody else's.
constexpr unsigned kReadsBeyond = 4;
// Four strays that lie within 4096 of a million places by accident: 1 in 10^7. More are used where there are more.
constexpr std::size_t kStraysMin = 4;
constexpr std::size_t kStraysMax = 8;
// After so many reads in sequence the next strays are searched for at once again: a search costs about a pass over the
// epoch, and must stay rare when two jobs share a mount.
constexpr std::uint64_t kReadsOfConfidence = 1024;

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

}  // namespace

ReaderTrack::ReaderTrack(Schedule& schedule, const WorkerLayout& workers, std::uint64_t epoch_length)
    : schedule_(schedule), apart_max_(apart_max(workers, epoch_length)), search_at_(kStraysMin) {}

bool ReaderTrack::is_passed(Place place) const {
  if (place < low_) return true;
  return place - low_ < zone_.size() && zone_[place - low_].passed;
}

Schedule::Position ReaderTrack::position() const {
  Schedule::Position lowest = schedule_.position_of(low_);
  if (zone_.empty()) return lowest;
  const Place end = std::min(schedule_.group_end(low_), low_ + zone_.size());
  for (Place place = low_ + 1; place < end; ++place) {
    if (!is_passed(place)) lowest.position = std::min(lowest.position, schedule_.position_of(place).position);
  }
  return lowest;
}

bool ReaderTrack::on_read(SampleIndex sample, std::vector<Passed>& passed) {
  passed.clear();
  extend_zone();
  const auto chain = chains_.find(sample);
  if (chain == chains_.end()) {
    ++strays_in_row_;
    matched_in_row_ = 0;
    if (strays_.size() == kStraysMax) strays_.erase(strays_.begin());
    strays_.push_back(sample);
    return false;
  }
  strays_in_row_ = 0;
  strays_.clear();
  if (++matched_in_row_ == kReadsOfConfidence) search_at_ = kStraysMin;
  const Place place = chain->second.first;
  pass(place, passed);
  give_up_behind(place, passed);
  leave_passed();
  return true;
}

// Two lengths: one within which reads are normal, one in which they show that places before were skipped.
void ReaderTrack::extend_zone(const std::vector<Place>& opened) {
  while (zone_.size() < 2 * apart_max_) {
    const Place place = low_ + zone_.size();
    const std::optional<SampleIndex> sample = schedule_.at(place);
    if (!sample) return;
    const bool passed = std::binary_search(opened.begin(), opened.end(), place);
    zone_.push_back({.sample = *sample, .passed = passed, .next_same = 0});
    if (passed) continue;
    const auto [chain, is_first] = chains_.try_emplace(*sample, Chain{.first = place, .last = place});
    if (is_first) continue;
    slot(chain->second.last).next_same = place;
    chain->second.last = place;
  }
}

// Of several places with one sample the first is always passed first.
void ReaderTrack::pass(Place place, std::vector<Passed>& passed) {
  Slot& passing = slot(place);
  const auto chain = chains_.find(passing.sample);
  HEADRACE_ASSERT(chain != chains_.end() && chain->second.first == place);
  passing.passed = true;
  if (passing.next_same == 0) {
    chains_.erase(chain);
  } else {
    chain->second.first = passing.next_same;
  }
  passed.push_back({.place = place, .sample = passing.sample});
}

// Gives up what the reader can no longer be about to read, now that it has read `place`.
void ReaderTrack::give_up_behind(Place place, std::vector<Passed>& passed) {
  const Place epoch_start = schedule_.epoch_start(place);
  const bool beyond = place >= low_ + apart_max_ || epoch_start > low_;
  if (!beyond || ++reads_beyond_ < kReadsBeyond) return;
  const Place limit = std::max(epoch_start, place - std::min(place, apart_max_));
  for (Place skipped = low_; skipped < limit; ++skipped) {
    if (!slot(skipped).passed) pass(skipped, passed);
  }
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
  if (strays_in_row_ < search_at_) return std::nullopt;
  const std::optional<Place> place = schedule_.locate(strays_, apart_max_);
  search_at_ = place ? kStraysMin : 2 * strays_in_row_;
  if (!place) return std::nullopt;
  return Found{.place = *place, .reads = strays_};
}

void ReaderTrack::move_to(Place place, const std::vector<Place>& opened) {
  low_ = place;
  zone_.clear();
  chains_.clear();
  strays_.clear();
  strays_in_row_ = 0;
  matched_in_row_ = 0;
  reads_beyond_ = 0;
  extend_zone(opened);
  schedule_.let_go_before(low_);
}

}  // namespace headrace::cache
