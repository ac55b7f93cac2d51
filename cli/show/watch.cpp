// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/watch.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/peer_words.h"
#include "headrace/io/printable.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

WatchTier tier_from(const json& tier) {
  return {.kind = text_of(tier, "kind"),
          .path = io::printable(text_of(tier, "path")),
          .used_bytes = number_of(tier, "used_bytes"),
          .budget_bytes = number_of(tier, "budget_bytes"),
          .hits = number_of(tier, "hits"),
          .hit_bytes = number_of(tier, "hit_bytes")};
}

std::uint64_t source_bytes(const WatchSample& sample) {
  return sample.tiers.empty() ? 0 : sample.tiers.back().hit_bytes;
}

// value(i, i + 1) for each pair of neighbours.
std::vector<double> steps(const std::deque<WatchSample>& samples,
                          const std::function<double(const WatchSample&, const WatchSample&)>& value) {
  std::vector<double> values;
  for (std::size_t i = 1; i < samples.size(); ++i) values.push_back(value(samples[i - 1], samples[i]));
  return values;
}

// A counter falls only when the daemon was restarted. That step counts as 0.
double growth(std::uint64_t before, std::uint64_t after) {
  return after > before ? static_cast<double>(after - before) : 0;
}

double seconds_between(const WatchSample& before, const WatchSample& after) {
  return std::max(after.uptime_seconds - before.uptime_seconds, 1e-3);
}

double last_of(const std::vector<double>& values) {
  return values.empty() ? 0 : values.back();
}

std::string format_rate(double bytes) {
  return format_size(static_cast<std::uint64_t>(bytes)) + "/s";
}

constexpr std::size_t kLabelColumns = 11;
constexpr std::size_t kValueColumns = 12;

// "opens/s      12.3k  ▁▂▃▅▇"
std::string draw_row(std::string_view label, const std::string& value, const std::vector<double>& values, double scale,
                     const WatchView& view) {
  std::string row = fmt::format("{:<{}}{:>{}}  ", label, kLabelColumns, value, kValueColumns);
  if (view.columns <= row.size()) return row.substr(0, view.columns);
  return row + draw_sparkline(values, scale, view.columns - row.size(), view.unicode);
}

double largest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// "page cache [######........]   6.2 GiB of 16.0 GiB"
std::string draw_bar(std::string_view label, std::uint64_t part, std::uint64_t whole, const WatchView& view) {
  constexpr std::size_t kBarColumnsMin = 4;
  constexpr std::size_t kBarColumnsMax = 30;
  const std::string figures = fmt::format(" {:>9} of {}", format_size(part), format_size(whole));
  const std::size_t others =
      kLabelColumns + figures.size() + 2;  // 2 for the brackets; the figures matter more than the bar
  const std::size_t bar =
      view.columns <= others + kBarColumnsMin ? kBarColumnsMin : std::min(kBarColumnsMax, view.columns - others);
  const double fraction = whole == 0 ? 0 : std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
  const auto filled = static_cast<std::size_t>(std::lround(fraction * static_cast<double>(bar)));
  const std::string row = fmt::format("{:<{}}[{}{}]{}", label, kLabelColumns, std::string(filled, '#'),
                                      std::string(bar - filled, '.'), figures);
  return row.substr(0, view.columns);
}

void add_rates(const WatchHistory& history, const WatchView& view, std::vector<std::string>& lines) {
  const std::vector<double> opens = history.rates(&WatchSample::opens);
  const std::vector<double> ratios = history.hit_ratios();
  const std::vector<double> pushed = history.rates(&WatchSample::pushed_bytes);
  const std::vector<double> source = history.source_rates();
  const std::vector<double> requests = history.rates(&WatchSample::requests);
  const auto count = [](double value) { return format_count(static_cast<std::uint64_t>(value)); };
  lines.push_back(draw_row("opens/s", count(last_of(opens)), opens, largest(opens), view));
  lines.push_back(draw_row("hits", fmt::format("{:.1f}%", 100 * last_of(ratios)), ratios, 1, view));
  lines.push_back(draw_row("pushed", format_rate(last_of(pushed)), pushed, largest(pushed), view));
  lines.push_back(draw_row("source", format_rate(last_of(source)), source, largest(source), view));
  lines.push_back(draw_row("requests/s", count(last_of(requests)), requests, largest(requests), view));
}

void add_tiers(const WatchSample& now, const WatchView& view, std::vector<std::string>& lines) {
  lines.push_back(draw_bar("page cache", now.page_cache.used_bytes, now.page_cache.budget_bytes, view));
  for (const WatchTier& tier : now.tiers) {
    if (tier.budget_bytes == 0) continue;
    std::string row = draw_bar(tier.kind == "ram" ? "staging" : tier.kind, tier.used_bytes, tier.budget_bytes, view);
    if (!tier.path.empty()) row += "  " + tier.path;
    lines.push_back(row.substr(0, view.columns));
  }
  lines.emplace_back();
  std::string served = "served  ";
  for (const WatchTier& tier : now.tiers) {
    served += fmt::format("  {} {} ({})", tier.kind, format_count(tier.hits), format_size(tier.hit_bytes));
  }
  lines.push_back(served.substr(0, view.columns));
}

std::string describe_order(const WatchSample& now) {
  if (now.order.empty()) return "order not known";
  const double part = now.samples == 0 ? 0 : static_cast<double>(now.position) / static_cast<double>(now.samples);
  return fmt::format("epoch {}, position {} ({:.0f}%), {} ahead, order {}", now.epoch, now.position, 100 * part,
                     now.ahead_samples, now.order);
}

}  // namespace

WatchSample sample_from(const json& stat) {
  const json& mount = member_of(stat, "mount");
  WatchSample sample;
  sample.uptime_seconds = real_of(stat, "uptime_seconds");
  sample.title = io::printable(text_of(stat, "source") + " on " + text_of(stat, "mount_point"));
  sample.order = text_of(mount, "order");
  sample.epoch = number_of(mount, "epoch");
  sample.position = number_of(mount, "position");
  sample.samples = number_of(member_of(stat, "data_set"), "samples");
  sample.ahead_samples = number_of(mount, "ahead_samples");
  sample.opens = number_of(mount, "opens");
  sample.hits = number_of(mount, "hits");
  sample.late = number_of(mount, "late");
  sample.strays = number_of(mount, "strays");
  sample.requests = number_of(mount, "request_total");
  sample.pushed_bytes = number_of(mount, "pushed_bytes");
  sample.failures = number_of(mount, "read_failures") + number_of(mount, "push_failures");
  sample.read_wait_us = static_cast<std::uint64_t>(1e6 * real_of(mount, "read_wait_seconds"));
  sample.page_cache.used_bytes = number_of(mount, "held_bytes");
  sample.page_cache.budget_bytes = number_of(mount, "page_cache_budget_bytes");
  sample.shares = io::printable(describe_shares(stat));
  sample.peer_rates = io::printable(describe_peer_rates(stat));
  for (const json& tier : member_of(member_of(stat, "store"), "tiers")) sample.tiers.push_back(tier_from(tier));
  return sample;
}

void WatchHistory::add(WatchSample sample) {
  samples_.push_back(std::move(sample));
  if (samples_.size() > kSamplesMax) samples_.pop_front();
}

std::vector<double> WatchHistory::rates(std::uint64_t WatchSample::*counter) const {
  return steps(samples_, [counter](const WatchSample& before, const WatchSample& after) {
    return growth(before.*counter, after.*counter) / seconds_between(before, after);
  });
}

std::vector<double> WatchHistory::hit_ratios() const {
  return steps(samples_, [](const WatchSample& before, const WatchSample& after) {
    const double opens = growth(before.opens, after.opens);
    return opens == 0 ? 1.0 : std::min(1.0, growth(before.hits, after.hits) / opens);
  });
}

std::vector<double> WatchHistory::source_rates() const {
  return steps(samples_, [](const WatchSample& before, const WatchSample& after) {
    return growth(source_bytes(before), source_bytes(after)) / seconds_between(before, after);
  });
}

std::string draw_sparkline(const std::vector<double>& values, double scale, std::size_t columns, bool unicode) {
  constexpr std::string_view kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::string_view kPlain[] = {" ", ".", ".", ":", "-", "=", "+", "*", "#"};
  const std::size_t first = values.size() > columns ? values.size() - columns : 0;
  std::string line;
  for (std::size_t i = first; i < values.size(); ++i) {
    const double part = scale > 0 ? std::clamp(values[i] / scale, 0.0, 1.0) : 0;
    const auto level = static_cast<std::size_t>(std::ceil(part * 8));
    line += unicode ? kBlocks[level] : kPlain[level];
  }
  return line;
}

std::vector<std::string> draw_watch(const WatchHistory& history, const WatchView& view) {
  std::vector<std::string> lines;
  if (history.empty()) return lines;
  const WatchSample& now = history.last();
  lines.push_back(fmt::format("{}, up {}", now.title, format_duration(now.uptime_seconds)).substr(0, view.columns));
  lines.push_back(describe_order(now).substr(0, view.columns));
  lines.emplace_back();
  add_rates(history, view, lines);
  lines.emplace_back();
  add_tiers(now, view, lines);
  lines.push_back(fmt::format("opens     {}, {} late, {} unexpected, {} failures", format_count(now.opens),
                              format_count(now.late), format_count(now.strays), format_count(now.failures))
                      .substr(0, view.columns));
  if (!now.shares.empty()) lines.push_back(now.shares.substr(0, view.columns));
  if (!now.peer_rates.empty()) lines.push_back(("peers     " + now.peer_rates).substr(0, view.columns));
  if (lines.size() > view.rows) lines.resize(view.rows);
  return lines;
}

std::string format_watch_line(const WatchHistory& history) {
  const WatchSample& now = history.last();
  return fmt::format(
      "{} {:.0f} opens/s, {:.1f}% hits, {} pushed, {} from source, {} ahead{}", format_duration(now.uptime_seconds),
      last_of(history.rates(&WatchSample::opens)), 100 * last_of(history.hit_ratios()),
      format_rate(last_of(history.rates(&WatchSample::pushed_bytes))), format_rate(last_of(history.source_rates())),
      now.ahead_samples, now.shares.empty() ? "" : "; " + now.shares);
}

}  // namespace headrace::cli
