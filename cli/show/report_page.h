// SPDX-License-Identifier: Apache-2.0
// Draws what happened in a mount over some minutes as one page of HTML, which needs nothing else: no scripts, no fonts,
// no pictures of others. The plots are SVG.
//
//   WatchHistory history;                                  // looked at again and again
//   const std::string page = draw_report({.first = stat_before, .last = stat_after}, history);
//
// Pure. Thread-safety: that of plain values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "headrace/cli/show/watch.h"

namespace headrace::cli {

// The daemon's answers to "stat" at both ends of the time.
struct ReportSpan {
  const nlohmann::json& first;
  const nlohmann::json& last;
};
[[nodiscard]] std::string draw_report(const ReportSpan& span, const WatchHistory& history);

// Text as it may stand in HTML, in an attribute too.
[[nodiscard]] std::string escape_html(std::string_view text);

struct Plot {
  std::string title;
  std::string unit;  // behind the largest value
  std::vector<double> values;
  double seconds = 0;  // from the first value to the last
};
// An <svg> element.
[[nodiscard]] std::string draw_plot(const Plot& plot);

}  // namespace headrace::cli
