// SPDX-License-Identifier: Apache-2.0
// Where a reader is in a schedule, told from the samples it opens: which places it has been through, although its
// workers open them a little out of sequence, some opens are never reported, and others belong to somebody else.
//
//   ReaderTrack track(schedule, order.workers());
//   if (!track.on_read(sample, passed)) stray(sample);   // else `passed` names the places it is through with now
//
// Reads are matched in a zone of the places ahead. A place that stays unread while its strand (Schedule::strand_of())
// goes on by more than the workers of a rank can be apart is given up; strands may be further apart from each other
// than that. Reads outside of the zone that lie close together elsewhere show where the reader has gone
// (find_reader()): elsewhere in the epochs drawn, or to the beginning of another one.
//
// Memory: proportional to what strands and workers can be apart. Amortised O(1) per read and strand.
// Thread-safety: none; one owner. Ownership: the schedule outlives it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "headrace/cache/ahead/schedule.h"

namespace headrace::cache {

class ReaderTrack {
 public:
  ReaderTrack(Schedule& schedule, const WorkerLayout& workers, std::uint64_t epoch_length);

  struct Passed {
    Place place = 0;
    SampleIndex sample = 0;
    std::uint64_t lane = 0;  // that the place is in; the schedule may have let go of it
  };
  // False: a stray, outside of the zone. True: `passed` are the places read or given up by this, each reported once;
  // none where the sample was read just before.
  [[nodiscard]] bool on_read(SampleIndex sample, std::vector<Passed>& passed);
  // After strays: the place to which the reader seems to have gone, or the epoch that it began, and the reads that
  // show it. Feed them to on_read() again after move_to().
  struct Found {
    std::optional<Place> place;
    std::optional<std::uint64_t> epoch;
    std::vector<SampleIndex> reads;
  };
  [[nodiscard]] std::optional<Found> find_reader();
  // Starts over at `place` of the schedule; the places `opened` (sorted) behind it count as read.
  void move_to(Place place, const std::vector<Place>& opened);

  [[nodiscard]] Place low() const { return low_; }  // the first place not passed
  [[nodiscard]] bool is_passed(Place place) const;
  // The lowest position of the order that was not passed.
  [[nodiscard]] Schedule::Position position() const;

 private:
  struct Slot {
    SampleIndex sample = 0;
    std::uint16_t lane = 0;
    std::uint16_t strand = 0;
    Place next_same = 0;  // the next place of the zone with this sample; 0: none
    std::uint32_t next_of_strand =
        0;  // how many places further the strand goes on; 0: not in the zone, or the only one
    bool passed = false;
  };
  struct Chain {  // the unread places of one sample, in the zone
    Place first = 0;
    Place last = 0;
  };
  [[nodiscard]] Slot& slot(Place place) { return zone_[place - low_]; }
  // Where one rank, or the only one's worker, is.
  struct Strand {
    Place low = 0;              // its first place not passed, or one before that
    unsigned reads_beyond = 0;  // further from `low` than its workers can be apart
    Place last = 0;             // its last place in the zone, if there is one
  };
  void note_recent(SampleIndex sample);
  void note_just_read(SampleIndex sample);
  [[nodiscard]] std::optional<Place> expected_place(SampleIndex sample);
  void extend_zone(const std::vector<Place>& opened = {});
  void link_strand(Place place);
  void pass(Place place, std::vector<Passed>& passed);
  void give_up_behind(Place place, std::vector<Passed>& passed);
  void give_up_slow_strands(Place place, std::vector<Passed>& passed);
  [[nodiscard]] Place low_of(std::uint16_t strand);
  void leave_passed();

  Schedule& schedule_;
  const std::uint64_t apart_max_;     // places: workers of one rank
  const std::uint64_t drift_max_;     // places: strands
  const std::uint64_t reads_needed_;  // to find the reader by
  Place low_ = 0;
  std::vector<Strand> strands_;
  std::deque<Slot> zone_;  // from low_ on
  std::unordered_map<SampleIndex, Chain> chains_;
  unsigned reads_beyond_ = 0;        // further from low_ than the strands can be apart
  std::vector<SampleIndex> recent_;  // the last reads, strays or not; each sample once
  std::uint64_t doubt_ = 0;          // how many more of the reads of late were strays than were not
  const std::uint64_t just_read_max_;
  std::deque<SampleIndex> just_read_in_turn_;                 // the last reads in the zone
  std::unordered_map<SampleIndex, unsigned> just_read_ = {};  // of these, how often
  const std::uint64_t search_interval_;  // strays between two searches, once those before found nothing
  std::uint64_t search_at_;              // the doubt that makes the next search worth its cost
  std::uint64_t matched_in_row_ = 0;
  unsigned finds_in_vain_ = 0;  // after which the reader was elsewhere again soon
};

}  // namespace headrace::cache
