// SPDX-License-Identifier: Apache-2.0
// The epochs around the reader as one endless row of places, in the sequence in which the loader opens the samples.
//
//   Schedule schedule(order, {.sample_count = n});
//   while (std::optional<SampleIndex> sample = schedule.at(place)) ++place;   // ends two epochs ahead
//   schedule.let_go_before(reader_place);                                     // then it goes on
//
// Memory: two epochs, 4 bytes per position and 1 bit per sample each; three for the moment in which one is drawn.
// Thread-safety: none; one owner. Ownership: the order outlives it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "headrace/cache/ahead/worker_sequence.h"
#include "headrace/cache/order.h"

namespace headrace::cache {

// A position of an epoch, counted through all epochs; seek() starts a new count.
using Place = std::uint64_t;

struct ScheduleOptions {
  std::uint64_t sample_count = 0;
  std::uint64_t first_epoch = 0;
  std::uint64_t epoch_count = UINT64_MAX;
  WorkerLayout workers = {};
};

class Schedule {
 public:
  Schedule(const Order& order, const ScheduleOptions& options);

  struct Position {
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;  // of the order; at the end of the epoch: its length
  };

  // Draws the next epoch when `place` lies in it. nullopt: beyond the last epoch, or two epochs away.
  [[nodiscard]] std::optional<SampleIndex> at(Place place);
  [[nodiscard]] Position position_of(Place place) const;
  // The first place of the epoch that `place` lies in.
  [[nodiscard]] Place epoch_start(Place place) const;
  // And the one behind it.
  [[nodiscard]] Place epoch_end(Place place) const { return epoch_of(place).end(); }
  // The lowest position that `wanted` holds for, in the group of batches that `place` lies in (WorkerSequence).
  [[nodiscard]] Position lowest_position(Place place, const std::function<bool(Place)>& wanted) const;
  [[nodiscard]] Place end() const;  // of what has been drawn

  // The places that one worker of one rank opens are a lane: it goes through them one by one. More lanes than kLanesMax
  // are taken for one.
  static constexpr std::uint64_t kLanesMax = 256;  // 16 ranks of 16 workers; a seek looks at all places of as many
  [[nodiscard]] std::uint64_t lanes() const { return lanes_; }
  [[nodiscard]] std::uint64_t lane_of(Place place) const;
  // What is read in sequence however far the rest of the job is: the places of a rank or, where there is one only, of
  // each of its workers, since ranks that take whole batches in turn (accelerate) look like the workers of one.
  [[nodiscard]] std::uint64_t strands() const { return workers_.ranks > 1 ? workers_.ranks : lanes_; }
  [[nodiscard]] std::uint64_t strand_of(Place place, std::uint64_t lane) const;  // `lane`: that of the place
  // The first place from `place` on that is in the lane. Draws like at().
  [[nodiscard]] std::optional<Place> first_in_lane(Place place, std::uint64_t lane);
  // The next place of the same lane; nullopt: there is none in the epoch.
  [[nodiscard]] std::optional<Place> after_in_lane(Place place) const;

  // Forgets epochs that end at or before `place`, so that a later one can be drawn. The last one drawn stays.
  void let_go_before(Place place);

  // Starts a new count of places, so that every place known before is void, and returns that of the first sample which
  // a reader at `position` of the epoch has not opened yet. Its workers opened some later places, too: `opened` names
  // them. Epochs already drawn are kept where they are still needed.
  Place seek(std::uint64_t epoch, std::uint64_t position, std::vector<Place>& opened);
  // Where in the two epochs these samples lie close together: the first of them, in the tightest stretch of at most
  // `stretch` places that has them all. O(epoch).
  [[nodiscard]] std::optional<Place> locate(std::span<const SampleIndex> samples, std::uint64_t stretch);
  // The epoch, of those that a job may well begin or repeat, that has all these samples among its first `stretch`.
  [[nodiscard]] std::optional<std::uint64_t> find_beginning(std::span<const SampleIndex> samples,
                                                            std::uint64_t stretch) const;

  // Draws the next epoch as soon as there is room for it, when epochs leave samples out: then it matters which.
  void draw_ahead_if_partial();
  // An epoch was drawn that does not read every sample.
  [[nodiscard]] bool leaves_samples_out() const { return partial_; }
  // Whether the sample comes up again in what has been drawn, as far as the places passed were noted.
  [[nodiscard]] bool is_needed(SampleIndex sample) const;
  void note_passed(Place place, SampleIndex sample);

 private:
  struct Epoch {
    std::uint64_t number = 0;
    Place first = 0;
    std::vector<SampleIndex> samples;  // by place
    WorkerSequence sequence;
    std::vector<bool> needed;  // by sample: comes up, and was not noted as passed
    [[nodiscard]] Place end() const { return first + samples.size(); }
  };
  [[nodiscard]] bool draw_next();
  void mark_needed(Epoch& epoch) const;
  [[nodiscard]] std::optional<Epoch> draw(std::uint64_t number, Place first) const;
  [[nodiscard]] const Epoch& epoch_of(Place place) const;
  [[nodiscard]] bool begins_with(std::uint64_t epoch, std::span<const SampleIndex> samples,
                                 std::uint64_t stretch) const;

  const Order& order_;
  const std::uint64_t sample_count_;
  const WorkerLayout workers_;
  const std::uint64_t lanes_;
  const std::uint64_t last_epoch_;  // no epoch after this one
  std::deque<Epoch> epochs_;        // one behind the other, at most two
  std::uint64_t next_epoch_;        // to be drawn
  bool finished_;                   // nothing follows what has been drawn
  bool partial_ = false;            // an epoch was drawn that leaves samples out
};

}  // namespace headrace::cache
