// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/watch.h"

#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace watch_test {

using headrace::cli::draw_sparkline;
using headrace::cli::draw_watch;
using headrace::cli::format_watch_line;
using headrace::cli::sample_from;
using headrace::cli::WatchHistory;
using headrace::cli::WatchSample;

namespace {

// How many characters a terminal shows.
std::size_t columns_of(const std::string& line) {
  std::size_t columns = 0;
  for (const char byte : line) columns += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return columns;
}

WatchSample sample_at(double seconds, std::uint64_t opens, std::uint64_t hits) {
  WatchSample sample;
  sample.uptime_seconds = seconds;
  sample.title = "/data/" + std::string(100, 'x') + " on /mnt";
  sample.order = "torch-distributed:seed=0";
  sample.samples = 1000;
  sample.position = 250;
  sample.opens = opens;
  sample.hits = hits;
  sample.page_cache = {.used_bytes = 6 << 20, .budget_bytes = 16 << 20};
  sample.tiers = {{.kind = "ssd", .path = "/nvme/" + std::string(100, 'y'), .used_bytes = 1, .budget_bytes = 4},
                  {.kind = "source", .hits = opens - hits, .hit_bytes = (opens - hits) * 1000}};
  return sample;
}

}  // namespace

TEST_CASE("rates are growth per second, ratios are of what was opened") {
  WatchHistory history;
  history.add(sample_at(10, 100, 90));
  CHECK(history.rates(&WatchSample::opens).empty());
  history.add(sample_at(12, 300, 190));
  history.add(sample_at(13, 300, 190));
  CHECK(history.rates(&WatchSample::opens) == std::vector<double>{100, 0});
  CHECK(history.hit_ratios() == std::vector<double>{0.5, 1});
  CHECK(history.source_rates() == std::vector<double>{50'000, 0});
}

TEST_CASE("counters of a restarted daemon give no nonsense") {
  WatchHistory history;
  history.add(sample_at(100, 5000, 5000));
  history.add(sample_at(1, 10, 10));
  CHECK(history.rates(&WatchSample::opens) == std::vector<double>{0});
}

TEST_CASE("the picture never leaves its terminal, however small") {
  WatchHistory history;
  for (int i = 0; i < 500; ++i) {
    history.add(sample_at(i, static_cast<std::uint64_t>(i * i), static_cast<std::uint64_t>(i * i / 2)));
  }
  for (const bool unicode : {true, false}) {
    for (std::size_t columns = 1; columns < 160; columns += 3) {
      for (const std::size_t rows : {1U, 5U, 24U}) {
        CAPTURE(columns);
        const auto lines = draw_watch(history, {.columns = columns, .rows = rows, .unicode = unicode});
        CHECK(lines.size() <= rows);
        for (const std::string& line : lines) {
          CAPTURE(line);
          CHECK(columns_of(line) <= columns);
        }
      }
    }
  }
}

TEST_CASE("sparklines show the last values, scaled") {
  CHECK(draw_sparkline({0, 4, 8}, 8, 10, true) == " ▄█");
  CHECK(draw_sparkline({1, 2, 3, 4}, 4, 2, false) == "+#");
  CHECK(draw_sparkline({0, 0}, 0, 10, false) == "  ");
}

TEST_CASE("an answer of another version is shown as far as it goes") {
  const WatchSample sample = sample_from(nlohmann::json::parse(R"({"mount": {"opens": 7}, "store": {}})"));
  CHECK(sample.opens == 7);
  CHECK(sample.tiers.empty());
  WatchHistory history;
  history.add(sample);
  CHECK_FALSE(draw_watch(history, {}).empty());
  CHECK(format_watch_line(history).find('\n') == std::string::npos);
}

}  // namespace watch_test
