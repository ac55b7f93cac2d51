// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/size.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/core.h>

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;

constexpr std::string_view kUnits = "KMGTP";

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// How many bytes "", "B", "K", "KB", "KiB" and so on stand for; 0: not a unit.
double unit_bytes(std::string_view unit) {
  if (unit.empty() || unit == "B" || unit == "b") return 1;
  const std::size_t power = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit.front()))));
  const std::string_view rest = unit.substr(1);
  const bool known_ending = rest.empty() || rest == "B" || rest == "b" || rest == "iB" || rest == "ib";
  if (power == std::string_view::npos || !known_ending) return 0;
  return std::pow(1024.0, static_cast<double>(power + 1));
}

}  // namespace

io::Result<std::uint64_t> parse_size(std::string_view text, std::uint64_t percent_of_bytes) {
  const std::string_view trimmed = trim(text);
  double number = 0;
  const auto [end, failure] =
      std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number, std::chars_format::fixed);
  if (failure != std::errc{} || !std::isfinite(number)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("'{}' is not a size; write a number with K, M, G or T, for instance 16G", text));
  }
  if (number < 0) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("'{}' is negative; a size is 0 or more", text));
  }
  const std::string_view unit = trim({end, static_cast<std::size_t>(trimmed.data() + trimmed.size() - end)});
  if (unit == "%") {
    if (percent_of_bytes == 0) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("'{}': a percentage makes no sense here; write a size such as 200G", text));
    }
    if (number > 100) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("'{}' is more than 100%", text));
    }
    return static_cast<std::uint64_t>(number / 100 * static_cast<double>(percent_of_bytes));
  }
  // What nobody wants and many type: a number of gigabytes. Whoever means bytes writes the B.
  if (unit.empty() && number > 0 && number < 1024) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("'{0}' would be {0} bytes; did you mean {0}G?", trimmed));
  }
  const double scale = unit_bytes(unit);
  if (scale == 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("'{}': unknown unit '{}'; K, M, G, T and % are known", text, unit));
  }
  // Below 2^63 two sizes can be added without an overflow.
  if (number * scale >= std::ldexp(1.0, 63)) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("'{}' is too large", text));
  }
  return static_cast<std::uint64_t>(number * scale);
}

io::Result<std::uint64_t> parse_rate(std::string_view option, std::string_view text) {
  if (text.empty()) return 0;
  return parse_size(text).map_error([option](io::Error error) {
    error.context.insert(0, fmt::format("{} ", option));
    return error;
  });
}

}  // namespace headrace::cli
