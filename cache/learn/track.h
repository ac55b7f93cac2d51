// SPDX-License-Identifier: Apache-2.0
// What is known of one part of the data set: the epoch under way, what it has read, and in which order.
//
//   Track track({.first = 0, .count = n});
//   track.on_open(sample);
//   if (track.wants_search()) { auto request = track.take_request(); ... track.on_result(request, found); }
//
// An open is expected while no order is known if its sample was not read in this epoch, and under a lock if it lies
// ahead in the order within reach. Unexpected ones are kept aside: a few are strays, a majority is a new epoch or a
// different order.
//
// Pure: no threads, no I/O, no clock. Thread-safety: none, the OrderLearner's mutex guards it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headrace/cache/learn/epoch_length.h"
#include "headrace/cache/learn/learned_set.h"
#include "headrace/cache/learn/link.h"
#include "headrace/cache/learn/reading.h"
#include "headrace/cache/learn/search.h"
#include "headrace/cache/order_learner.h"

namespace headrace::cache {

// A match, made ready outside of any lock: O(n).
struct PreparedMatch {
  Match match;
  std::vector<SampleIndex> position_of;  // by sample; kNowhere where the order does not have it
  std::uint64_t epochs = UINT64_MAX;     // that the order has from the match's epoch on
  static constexpr SampleIndex kNowhere = UINT32_MAX;
};
[[nodiscard]] std::optional<PreparedMatch> prepare_match(Match match, std::uint64_t n);

class Track {
 public:
  explicit Track(const SampleRange& range);

  [[nodiscard]] const SampleRange& range() const { return range_; }
  void on_open(SampleIndex local);
  void on_events_lost();
  // In the epoch under way; the last positions of one may never be read (drop_last).
  [[nodiscard]] bool has_read_all() const;

  struct Request {
    std::uint64_t window = 0;        // which opens these are
    std::uint64_t epoch_number = 0;  // of the epoch that they belong to
    std::uint64_t n = 0;
    OpenSet opens;                          // the first ones, as far as they tell more than others would
    std::size_t opened = 0;                 // so many there are
    std::size_t tried = 0;                  // so many of these were there at the attempt before
    std::vector<CandidateGroup> predicted;  // by the order that was locked before
    Indices read_before;                    // what the epoch before read, as it did; null: it is not known
    bool reads_the_same = false;            // and nothing else is read now
    std::vector<StreamLink> links;          // guesses: to the default generator's stream
    std::uint64_t epochs_since_link = 0;
  };
  [[nodiscard]] bool wants_search() const;
  [[nodiscard]] Request take_request();
  // Opens enough for the search through all seeds, which was not asked for yet.
  [[nodiscard]] bool wants_seed_search() const;
  [[nodiscard]] Request take_seed_request();
  // None of the seeds explains the opens.
  void on_no_seed(const Request& request);
  // False: nothing was locked, since the opens that the match explains are no longer those of the epoch under way, or
  // it is not believed.
  bool on_match(const Request& request, PreparedMatch prepared);
  void on_no_match(const Request& request);
  // One more place in the default generator's stream where the seed of that epoch is: a guess, until a match by it.
  void on_link(const StreamLink& link, std::uint64_t epoch_number);
  // Its spec is not believed again for some epochs, each time for more.
  void give_lock_up();
  // Without a lock from here on, and without distrust.
  void learn_anew();

  struct Lock {
    std::string spec;  // over the part, as read: ranks, batch, workers
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;
    std::uint64_t known_epochs = 1;
    double bits = 0;
    std::string found_by;
    std::uint64_t opens = 0;        // that it needed
    Indices base = {};              // what the spec is over; null: the part
    std::uint64_t read_length = 0;  // of each epoch no more is read; 0: all is
    // With the length that is read, as make_order() takes it.
    [[nodiscard]] std::string order_spec() const;
  };
  [[nodiscard]] const std::optional<Lock>& lock() const { return lock_; }
  // Grows when lock() becomes another order, or none; going on to the next epoch of the same order does not count.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  [[nodiscard]] std::uint64_t epoch_number() const { return epoch_number_; }
  [[nodiscard]] std::uint64_t locks() const { return locks_; }
  [[nodiscard]] std::uint64_t drops() const { return drops_; }

  // After an epoch, what that one read, the last one first, since that is most likely held still; then the others,
  // unless they are known not to be read.
  [[nodiscard]] std::optional<SampleIndex> next_unseen();
  [[nodiscard]] std::vector<SampleIndex> opens_of_epoch() const;
  // Once after each epoch that ended without a lock: what it did not read, if the next one keeps to what it did.
  [[nodiscard]] std::vector<SampleIndex> take_left_out() { return set_.take_left_out(); }
  // The opens of an epoch that ended without a lock, for the record; empty when there is none to be kept.
  [[nodiscard]] std::vector<SampleIndex> take_finished_epoch();

 private:
  [[nodiscard]] bool is_repetition(SampleIndex local, bool was_just_now) const;
  [[nodiscard]] bool reach_tells_epochs_apart() const;
  [[nodiscard]] bool within_reach(SampleIndex local) const;
  [[nodiscard]] bool fits_lock(SampleIndex local) const;
  void advance_to(std::uint64_t position);
  void start_at(double position);
  [[nodiscard]] double& progress_of(std::uint64_t position) { return progress_[reading_.strand_of(position)]; }
  [[nodiscard]] double distance_of(SampleIndex local) const;
  [[nodiscard]] std::vector<std::uint64_t> positions_opened() const;
  void on_expected(SampleIndex local);
  void on_unexpected(SampleIndex local);
  [[nodiscard]] bool epoch_has_turned() const;
  [[nodiscard]] bool lock_has_failed() const;
  void begin_epoch(const std::vector<SampleIndex>& opens);
  void drop_lock();
  void forget_given_up();
  void clear_suspects();
  [[nodiscard]] std::vector<SampleIndex> opens_since_first_unexpected() const;
  [[nodiscard]] Request request_with(const OpenSet& opens, std::uint64_t window) const;
  void adopt(PreparedMatch prepared, std::size_t opens);
  [[nodiscard]] bool suspects_are_new() const;
  void reach_suspects();
  [[nodiscard]] bool suspects_go_on() const;
  [[nodiscard]] bool is_distrusted(const Match& match, std::size_t opens) const;
  [[nodiscard]] bool reads_beyond_repeats() const;
  [[nodiscard]] double opens_per_sample() const;
  [[nodiscard]] std::uint64_t positions_read() const;
  void note_end_of_epoch();
  void describe_again();

  const SampleRange range_;

  // The epoch under way.
  std::uint64_t epoch_number_ = 0;
  std::vector<bool> seen_;
  std::vector<double> left_at_;  // progress_ at the end of the epoch before, if the listing was its order
  std::uint64_t seen_count_ = 0;
  bool is_heard_whole_ = true;  // no opens of it were lost
  std::uint64_t unexpected_opens_ = 0;
  std::uint64_t repeated_opens_ = 0;   // of samples opened just before: RepeatAugment, files opened twice
  bool never_repeats_ = false;         // the samples that it opens again and again are all of them
  OpenSet window_;                     // its first opens
  std::vector<SampleIndex> sequence_;  // all its opens, while nothing is locked
  std::vector<SampleIndex> finished_;  // those of the epoch before
  LearnedSet set_;                     // those of the last epoch without a lock
  std::uint64_t next_unseen_ = 0;

  // The last opens, and those among them that were not expected.
  std::vector<SampleIndex> recent_;  // a ring
  std::size_t recent_at_ = 0;
  std::uint64_t history_ = 0;  // the last 64, newest in bit 0; 1: unexpected
  OpenSet suspects_;

  // Requests: a window is known by its number, so that an answer that comes too late is recognised.
  std::uint64_t window_id_ = 1;
  std::uint64_t suspects_id_ = 2;
  std::uint64_t last_id_ = 2;
  std::size_t window_attempt_ = 0;
  std::size_t suspects_attempt_ = 0;
  std::size_t window_tried_ = 0;  // opens that the attempt before had
  std::size_t suspects_tried_ = 0;
  bool suspects_answered_ = false;
  bool seed_search_asked_ = false;
  unsigned seed_searches_in_vain_ = 0;  // one after the other
  std::uint64_t seed_search_from_ = 0;  // epoch

  // The lock.
  std::optional<Lock> lock_;
  Match match_;                           // behind it: the order before ranks and workers were added
  std::vector<SampleIndex> position_of_;  // in that order
  Match previous_;                        // the lock before, of another order: training around a validation pass
  bool settled_ = false;                  // ranks and workers were read off enough opens
  Reading reading_;
  std::vector<double> progress_ = {0};  // where each strand of the reading is
  double reach_ = 0;                    // how far from there an open may lie
  std::uint64_t stretch_min_ = 0;       // opens in sequence that it takes to believe that the listing is the order
  EpochLength length_;                  // of the epochs under the lock
  std::string given_up_;                // a spec that was followed and did not hold
  Indices given_up_base_;               // what it was over
  std::uint64_t given_up_until_ = 0;    // epoch; from then on it may be another job that reads so
  unsigned times_given_up_ = 0;
  std::vector<StreamLink> links_;  // all from the same epoch
  std::uint64_t link_epoch_ = 0;

  std::uint64_t generation_ = 0;
  std::uint64_t locks_ = 0;
  std::uint64_t drops_ = 0;
};

}  // namespace headrace::cache
