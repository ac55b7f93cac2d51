// SPDX-License-Identifier: Apache-2.0
// Draws the live view of a mount: what happened in each of the last seconds, for a terminal or as a plain line.
//
//   WatchHistory history;
//   history.add(sample_from(*stat));
//   for (const std::string& line : draw_watch(history, {.columns = 80, .rows = 24})) print(line);
//
// Pure: it needs no clock and no terminal. Thread-safety: that of plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace headrace::cli {

struct WatchTier {
  std::string kind;
  std::string path;
  std::uint64_t used_bytes = 0;
  std::uint64_t budget_bytes = 0;  // 0: there is none (the source)
  std::uint64_t hits = 0;
  std::uint64_t hit_bytes = 0;
};

// One look at the counters.
struct WatchSample {
  double uptime_seconds = 0;
  std::string title;  // "/data/train on /mnt/train"
  std::string order;  // empty: the order is not known
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;
  std::uint64_t samples = 0;  // of the data set
  std::uint64_t ahead_samples = 0;
  std::uint64_t opens = 0;
  std::uint64_t hits = 0;
  std::uint64_t late = 0;
  std::uint64_t strays = 0;
  std::uint64_t requests = 0;
  std::uint64_t pushed_bytes = 0;
  std::uint64_t failures = 0;
  std::uint64_t read_wait_us = 0;  // of all readers together
  WatchTier page_cache;
  std::string shares;            // peer_words.h; empty: nothing is shared
  std::string peer_rates;        // likewise
  std::vector<WatchTier> tiers;  // those behind the page cache; the source comes last
};

// From the daemon's answer to "stat". Members that are missing count as 0.
[[nodiscard]] WatchSample sample_from(const nlohmann::json& stat);

class WatchHistory {
 public:
  void add(WatchSample sample);
  [[nodiscard]] bool empty() const { return samples_.empty(); }
  [[nodiscard]] const WatchSample& last() const { return samples_.back(); }
  // How much a counter grew per second between one look and the next, oldest first; empty before the second look.
  [[nodiscard]] std::vector<double> rates(std::uint64_t WatchSample::*counter) const;
  // Hits per open between one look and the next; 1 where nothing was opened.
  [[nodiscard]] std::vector<double> hit_ratios() const;
  // Bytes per second that left the source.
  [[nodiscard]] std::vector<double> source_rates() const;

 private:
  static constexpr std::size_t kSamplesMax = 240;  // the width of the widest sparkline
  std::deque<WatchSample> samples_;
};

struct WatchView {
  std::size_t columns = 80;
  std::size_t rows = 24;
  bool unicode = true;  // false: bars and sparklines consist of plain characters
};

// At most `rows` lines of at most `columns` characters.
[[nodiscard]] std::vector<std::string> draw_watch(const WatchHistory& history, const WatchView& view);
// "12:30 1234 opens/s, 98% hits, 120.0 MiB/s pushed, 3.1 MiB/s from source, 2100 ahead"
[[nodiscard]] std::string format_watch_line(const WatchHistory& history);

// One character for each of the last `columns` values; `scale` is the value that fills it.
[[nodiscard]] std::string draw_sparkline(const std::vector<double>& values, double scale, std::size_t columns,
                                         bool unicode);

}  // namespace headrace::cli
