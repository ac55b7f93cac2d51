// SPDX-License-Identifier: Apache-2.0
// Shows how far a long job is: on a terminal a bar that is drawn again and again, elsewhere a line every few seconds.
//
//   Progress progress(stderr, "warming", {.samples = 1'281'167, .bytes = total});
//   progress.update({.samples = done, .bytes = done_bytes});   // call it often; it draws when it is time
//   progress.finish({...});                                    // draws the last state and ends the line
//
// Thread-safety: one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace headrace::cli {

struct Amount {
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;
};

// One line of at most `columns` characters: label, bar, per cent, samples, bytes, rate, and the time left (when
// everything is done: the time taken). Pure.
[[nodiscard]] std::string format_progress(std::string_view label, Amount done, Amount total, double elapsed_seconds,
                                          std::size_t columns);

// The line itself: drawn over the one before on a terminal, a new one elsewhere.
class ProgressLine {
 public:
  explicit ProgressLine(std::FILE* stream);
  // Whether it is time to draw. Then the next time is a while later.
  [[nodiscard]] bool is_due();
  [[nodiscard]] std::size_t columns() const;
  // What the terminal has no room for is cut off.
  void draw(std::string line);
  void end();    // what is written next begins below it
  void erase();  // what is written next takes its place; elsewhere than on a terminal it stays

 private:
  std::FILE* const stream_;
  const bool terminal_;
  bool is_drawn_ = false;
  std::chrono::steady_clock::time_point next_draw_;
};

class Progress {
 public:
  Progress(std::FILE* stream, std::string label, Amount total);
  void update(Amount done);
  void finish(Amount done);
  [[nodiscard]] double elapsed_seconds() const;

 private:
  void draw(Amount done);

  ProgressLine line_;
  std::string label_;
  Amount total_;
  std::chrono::steady_clock::time_point started_;
};

// Where nothing says how much there is: "listing s3://bucket/train: 120000 objects". On a terminal the line goes away
// again. Thread-safety: one thread at a time.
class CountProgress {
 public:
  CountProgress(std::FILE* stream, std::string label, std::string unit);
  ~CountProgress();
  CountProgress(const CountProgress&) = delete;
  CountProgress& operator=(const CountProgress&) = delete;

  void update(std::uint64_t count);

 private:
  ProgressLine line_;
  const std::string label_;
  const std::string unit_;
};

}  // namespace headrace::cli
