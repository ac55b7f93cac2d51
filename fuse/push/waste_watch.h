// SPDX-License-Identifier: Apache-2.0
// Whether reading ahead costs the source more than it saves: then there is a pause.
//
//   WasteWatch watch;
//   watch.note({.opens = 900, .met = 700, .fetched = 950, .held = 160});   // after opens
//   if (watch.is_paused()) ...;   // nothing is read ahead now
//
// Who reads without a mount asks the source once for each sample that is opened. With one the source is asked for what
// is opened and not there, and for what is read ahead. So what was read ahead, less what of that is held still, may be
// as much as was met by opens, and 3 % of all opens. What is more than that is waste. It adds up, and what is saved
// later takes it away; what was saved before excuses nothing.
//
// A plan that gives way to another one gives up what it holds, once, unread. So a pause begins when more than that was
// wasted. It lasts for so many opens that the waste is little among them, each time twice as many, up to a bound. It
// ends at once with another order; where that one is lost within it, it goes on.
//
// Pure: no I/O, no threads, no clock. Thread-safety: none; one owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace headrace::fuse {

class WasteWatch {
 public:
  // Of samples, since the mount began; `held` now.
  struct Counts {
    std::uint64_t opens = 0;
    std::uint64_t met = 0;      // of these, what was there or on its way
    std::uint64_t fetched = 0;  // ahead, and from the source itself: what a disk tier has costs it nothing
    std::uint64_t held = 0;
  };

  void note(const Counts& now);
  // Something else than reading changed the counts, as another budget does, or opens went unseen.
  void restart() {
    is_based_ = false;
    waste_ = 0;
  }
  // A held sample went because its file is another one now.
  void on_changed_file() { last_.held -= last_.held > 0 ? 1 : 0; }
  // Another order is followed, or none any more.
  void on_order(bool is_known) { is_excused_ = is_known; }

  [[nodiscard]] bool is_paused() const { return opens_left() > 0; }
  [[nodiscard]] std::uint64_t opens_left() const {  // of the pause
    return is_excused_ || last_.opens >= pause_ends_ ? 0 : pause_ends_ - last_.opens;
  }
  [[nodiscard]] std::uint64_t pauses() const { return pauses_; }

 private:
  static constexpr double kAllowedShare = 0.03;
  // Beside what is held: some opens are met before their push is counted, others are told late.
  static constexpr double kSlack = 64;
  // What a pause lasts, by what was wasted before it: one or two epochs, where a good part of the data set is held. The
  // longest lets less than 2 % of all opens be wasted beside what is allowed.
  static constexpr double kShortest = 4;
  static constexpr double kLongest = 64;

  void pause(double wasted);

  Counts last_;
  bool is_based_ = false;
  double waste_ = 0;            // in samples
  std::uint64_t held_max_ = 0;  // since the last pause
  double length_ = kShortest;   // of the next pause
  std::uint64_t pause_ends_ = 0;
  bool is_excused_ = false;  // by an order that is followed since the pause began
  std::uint64_t pauses_ = 0;
};

}  // namespace headrace::fuse
