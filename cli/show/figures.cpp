// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/figures.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/core.h>

namespace headrace::cli {

std::string format_size(std::uint64_t bytes) {
  constexpr std::string_view kUnits = "KMGTP";
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (value /= 1024; value >= 1023.5 && unit + 1 < kUnits.size(); value /= 1024) ++unit;
  return fmt::format("{:.{}f} {}iB", value, value < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string format_count(std::uint64_t count) {
  if (count < 10'000) return std::to_string(count);
  constexpr std::string_view kSuffixes = "kMGTPE";
  double value = static_cast<double>(count) / 1000;
  std::size_t suffix = 0;
  for (; value >= 999.5; value /= 1000) ++suffix;
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, decimals, kSuffixes[suffix]);
}

std::string format_duration(double seconds) {
  constexpr double kLongest = 359'999;  // 99:59:59
  const auto whole = static_cast<unsigned>(std::clamp(std::round(seconds), 0.0, kLongest));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

double request_dollars(std::uint64_t gets, std::uint64_t lists) {
  return kDollarsPerGet * static_cast<double>(gets) + kDollarsPerList * static_cast<double>(lists);
}

std::string describe_epoch_price(std::uint64_t requests) {
  return fmt::format(
      "an epoch from the bucket alone takes {} requests: about ${:.2f}, at Amazon's ${} per 1 000 (S3 Standard, an "
      "estimate); traffic out of its region costs more",
      format_count(requests), request_dollars(requests, 0), 1000 * kDollarsPerGet);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace headrace::cli
