// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/report_page.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/io/printable.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>
:root { color-scheme: light dark; --ink: #1c2733; --dim: #667; --line: #1769aa; --grid: #d7dde3; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --dim: #9aa4ae; --line: #6cb6f5; --grid: #3a444e; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
.dim, figcaption, th { color: var(--dim); } figure { margin: 1.2rem 0; } svg { width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .2rem .5rem; font-weight: normal; }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
tr { border-bottom: 1px solid var(--grid); }
.figures { display: flex; flex-wrap: wrap; gap: 1.5rem; } .figures b { display: block; font-size: 1.5rem; }
path { fill: none; stroke: var(--line); stroke-width: 2; } line { stroke: var(--grid); }
text { fill: var(--dim); font-size: 12px; }
</style>
)";

double seconds_of(const ReportSpan& span) {
  return std::max(real_of(span.last, "uptime_seconds") - real_of(span.first, "uptime_seconds"), 1e-3);
}

// How much a counter grew. It falls only when the daemon was restarted: then what it has now counts.
double growth(const json& before, const json& after, const char* name) {
  const double now = real_of(after, name);
  const double then = real_of(before, name);
  return now >= then ? now - then : now;
}

double mount_growth(const ReportSpan& span, const char* name) {
  return growth(member_of(span.first, "mount"), member_of(span.last, "mount"), name);
}

// A figure with few digits: 0.25, 7.3, 1234.
std::string short_figure(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value)
         : value >= 1 ? fmt::format("{:.1f}", value)
                      : fmt::format("{:.2f}", value);
}

std::string row(const std::vector<std::string>& cells, const char* kind = "td") {
  std::string line = "<tr>";
  for (const std::string& cell : cells) line += fmt::format("<{0}>{1}</{0}>", kind, escape_html(cell));
  return line + "</tr>\n";
}

std::string size_text(double bytes) {
  return format_size(static_cast<std::uint64_t>(std::max(bytes, 0.0)));
}

std::string order_sentence(const json& mount) {
  const std::string order = text_of(mount, "order");
  if (order.empty()) return "The order is not known.";
  const std::string found_by = text_of(mount, "order_found_by");
  const std::string how = found_by.empty() ? "was given" : "was learned (" + found_by + ")";
  return fmt::format("The order is {}, epoch {}; it {}.", order, number_of(mount, "epoch"), how);
}

std::string head(const ReportSpan& span) {
  const json& data = member_of(span.last, "data_set");
  const std::string title = text_of(span.last, "source") + " on " + text_of(span.last, "mount_point");
  return fmt::format(
      "{}<title>{}</title></head><body>\n<h1>{}</h1>\n<p class=\"dim\">{} of headrace {}. {} samples, {}. {}</p>\n",
      kHead, escape_html(title), escape_html(title), format_duration(seconds_of(span)),
      escape_html(text_of(span.last, "version")), number_of(data, "samples"), format_size(number_of(data, "bytes")),
      escape_html(order_sentence(member_of(span.last, "mount"))));
}

std::string figures(const ReportSpan& span) {
  const double opens = mount_growth(span, "opens");
  const double seconds = seconds_of(span);
  const auto figure = [](const std::string& value, const char* what) {
    return fmt::format("<span><b>{}</b>{}</span>\n", value, what);
  };
  return "<div class=\"figures\">\n" + figure(short_figure(opens / seconds), "files per second") +
         figure(opens > 0 ? fmt::format("{:.1f} %", 100 * mount_growth(span, "hits") / opens) : "-",
                "found in memory") +
         figure(short_figure(mount_growth(span, "read_wait_seconds") / seconds), "readers waiting, on average") +
         figure(fmt::format("{:.0f}", mount_growth(span, "read_failures")), "reads failed") + "</div>\n";
}

std::string plots(const ReportSpan& span, const WatchHistory& history) {
  const double seconds = seconds_of(span);
  std::vector<double> hits = history.hit_ratios();
  for (double& ratio : hits) ratio *= 100;
  std::vector<double> waits = history.rates(&WatchSample::read_wait_us);
  for (double& wait : waits) wait /= 1e6;
  std::vector<double> source = history.source_rates();
  for (double& rate : source) rate /= 1 << 20;
  std::string all;
  for (const Plot& plot : {Plot{"Files opened", "per second", history.rates(&WatchSample::opens), seconds},
                           Plot{"Found in memory", "%", std::move(hits), seconds},
                           Plot{"Readers waiting for data", "", std::move(waits), seconds},
                           Plot{"Read from the source", "MiB per second", std::move(source), seconds}}) {
    all += fmt::format("<figure><figcaption>{}</figcaption>\n{}</figure>\n", escape_html(plot.title), draw_plot(plot));
  }
  return all;
}

// What lay in memory was opened; what did not was read from a tier, by the mount or ahead.
std::string places(const ReportSpan& span) {
  std::string table = "<h2>Where the samples came from</h2>\n<table>\n" + row({"place", "samples", "bytes"}, "th");
  table += row({"found in the page cache", fmt::format("{:.0f}", mount_growth(span, "hits")), ""});
  const json& tiers = member_of(member_of(span.last, "store"), "tiers");
  const json& before = member_of(member_of(span.first, "store"), "tiers");
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const json none = json::object();
    const json& then = i < before.size() ? before[i] : none;
    const std::string path = text_of(tiers[i], "path");
    table +=
        row({"fetched from " + text_of(tiers[i], "kind") + (path.empty() ? "" : " " + io::printable(path)),
             fmt::format("{:.0f}", growth(then, tiers[i], "hits")), size_text(growth(then, tiers[i], "hit_bytes"))});
  }
  return table + "</table>\n";
}

std::string waits(const ReportSpan& span) {
  const json& now = member_of(member_of(span.last, "mount"), "read_waits");
  const json& then = member_of(member_of(span.first, "mount"), "read_waits");
  std::string rows;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const double count = i < then.size() ? growth(then[i], now[i], "count") : real_of(now[i], "count");
    if (count == 0) continue;
    const double bound = real_of(now[i], "seconds_max");
    rows += row(
        {bound > 0 ? fmt::format("up to {} ms", short_figure(1000 * bound)) : "longer", fmt::format("{:.0f}", count)});
  }
  if (rows.empty()) return "";
  return "<h2>How long reads waited that memory could not answer</h2>\n<table>\n" + row({"wait", "reads"}, "th") +
         rows + "</table>\n";
}

// In shuffled epochs that read each sample once, what is held is what is found: no choice of what to hold is better.
std::string prospects(const ReportSpan& span) {
  const json& data = member_of(span.last, "data_set");
  const double samples = real_of(data, "samples");
  const double bytes = real_of(data, "bytes");
  std::string table =
      "<h2>What more memory or an SSD would bring</h2>\n<p class=\"dim\">For shuffled epochs that read each "
      "sample once.</p>\n<table>\n" +
      row({"held in RAM and on an SSD", "share", "reads of the source per epoch"}, "th");
  for (const double part : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    table += row(
        {size_text(part * bytes), fmt::format("{:.0f} %", 100 * part), fmt::format("{:.0f}", (1 - part) * samples)});
  }
  return table + "</table>\n";
}

std::string notes(const ReportSpan& span) {
  const json& mount = member_of(span.last, "mount");
  std::vector<std::string> lines;
  if (const std::string shortage = text_of(mount, "shortage"); !shortage.empty())
    lines.push_back("Less memory: " + shortage);
  for (const auto& [reason, count] : member_of(mount, "read_failure_reasons").items()) {
    lines.push_back(fmt::format("{} reads failed with {} since the start", count.dump(), reason));
  }
  if (mount_growth(span, "lost_samples") > 0) {
    lines.push_back(
        fmt::format("The kernel took back {:.0f} samples before they were read", mount_growth(span, "lost_samples")));
  }
  for (const json& fallback : member_of(mount, "fallbacks")) {
    if (fallback.is_string()) lines.push_back(fallback.get<std::string>());
  }
  if (lines.empty()) return "";
  std::string list = "<h2>Notes</h2>\n<ul>\n";
  for (const std::string& line : lines) list += "<li>" + escape_html(io::printable(line)) + "</li>\n";
  return list + "</ul>\n";
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

std::string draw_plot(const Plot& plot) {
  constexpr double kWidth = 720;
  constexpr double kHeight = 150;
  constexpr double kTop = 18;  // above it the largest value, below the bottom the times
  constexpr double kBottom = 130;
  const double largest = plot.values.empty() ? 0 : *std::max_element(plot.values.begin(), plot.values.end());
  std::string points;
  for (std::size_t i = 0; i < plot.values.size(); ++i) {
    const double across =
        plot.values.size() > 1 ? static_cast<double>(i) / static_cast<double>(plot.values.size() - 1) : 0;
    const double up = largest > 0 ? plot.values[i] / largest : 0;
    points += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : " L", across * kWidth, kBottom - up * (kBottom - kTop));
  }
  const std::string label = fmt::format("{} {}", short_figure(largest), plot.unit);
  return fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"{2}, at most {3}\">\n"
      "<line x1=\"0\" y1=\"{4}\" x2=\"{0}\" y2=\"{4}\"/><line x1=\"0\" y1=\"{5}\" x2=\"{0}\" y2=\"{5}\"/>\n"
      "<path d=\"{6}\"/>\n<text x=\"0\" y=\"12\">{3}</text><text x=\"0\" y=\"146\">0:00</text>"
      "<text x=\"{0}\" y=\"146\" text-anchor=\"end\">{7}</text>\n</svg>\n",
      kWidth, kHeight, escape_html(plot.title), escape_html(label), kTop, kBottom, points,
      format_duration(plot.seconds));
}

std::string draw_report(const ReportSpan& span, const WatchHistory& history) {
  return head(span) + figures(span) + plots(span, history) + places(span) + waits(span) + prospects(span) +
         notes(span) + "</body></html>\n";
}

}  // namespace headrace::cli
