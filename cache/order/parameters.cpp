// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order/parameters.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace headrace::cache {
namespace {

template <typename T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// What a user typed may hold anything; messages stay on one short line.
[[nodiscard]] std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 80;
  std::string shown(text.substr(0, kShown));
  std::ranges::replace_if(
      shown, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return fmt::format("'{}{}'", shown, text.size() > kShown ? "..." : "");
}

// A parameter whose value is a spec of its own, commas and all.
constexpr std::string_view kRestOfSpec = "of=";

[[nodiscard]] std::string_view take_until(std::string_view& rest, char separator) {
  const std::size_t at = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return taken;
}

}  // namespace

Seed::Seed(std::uint64_t value) : magnitude_(value) {}

std::optional<Seed> Seed::parse(std::string_view decimal) {
  Seed seed;
  seed.negative_ = decimal.starts_with('-');
  if (seed.negative_) decimal.remove_prefix(1);
  if (decimal.empty()) return std::nullopt;
  constexpr auto kMost = std::numeric_limits<unsigned __int128>::max();
  for (const char c : decimal) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<unsigned>(c - '0');
    if (seed.magnitude_ > (kMost - digit) / 10) return std::nullopt;
    seed.magnitude_ = seed.magnitude_ * 10 + digit;
  }
  return seed;
}

std::uint64_t Seed::low64() const {
  const auto low = static_cast<std::uint64_t>(magnitude_);
  return negative_ ? 0 - low : low;
}

std::vector<std::uint32_t> Seed::words() const {
  std::vector<std::uint32_t> words;
  auto rest = magnitude_;
  do {
    words.push_back(static_cast<std::uint32_t>(rest));
    rest >>= 32;
  } while (rest != 0);
  return words;
}

Seed Seed::plus(std::uint64_t addend) const {
  Seed sum = *this;
  if (!negative_) {
    sum.magnitude_ += addend;
  } else if (magnitude_ > addend) {
    sum.magnitude_ -= addend;
  } else {
    sum = Seed(addend - static_cast<std::uint64_t>(magnitude_));
  }
  return sum;
}

Parameters::Parameters(std::string_view spec) : spec_(spec) {
  const std::size_t colon = spec.find(':');
  family_ = spec.substr(0, colon);
  if (colon == std::string_view::npos) return;
  whole_ = spec.substr(colon + 1);
  std::string_view rest = whole_;
  while (!rest.empty()) {
    const std::string_view item = rest.starts_with(kRestOfSpec) ? std::exchange(rest, {}) : take_until(rest, ',');
    std::string_view value = item;
    const std::string_view name = take_until(value, '=');
    if (name.size() == item.size()) fail(fmt::format("{} is not NAME=VALUE", quoted(item)));
    if (!values_.emplace(name, value).second) fail(fmt::format("{} is given twice", quoted(name)));
  }
}

std::optional<std::string_view> Parameters::take(std::string_view name) {
  known_.emplace_back(name);
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

void Parameters::reject(std::string_view name, std::string_view value, std::string_view allowed) {
  fail(fmt::format("{}={} is not allowed: {}", name, quoted(value), allowed));
}

void Parameters::fail(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
}

std::optional<std::uint64_t> Parameters::optional_integer(std::string_view name, Bounds bounds) {
  const std::optional<std::string_view> given = take(name);
  if (!given) return std::nullopt;
  const std::optional<std::uint64_t> value = parse_number<std::uint64_t>(*given);
  if (value && *value >= bounds.least && *value <= bounds.most) return value;
  reject(name, *given, fmt::format("an integer from {} to {}", bounds.least, bounds.most));
  return std::nullopt;
}

std::uint64_t Parameters::integer(std::string_view name, std::uint64_t fallback, Bounds bounds) {
  return optional_integer(name, bounds).value_or(fallback);
}

std::optional<Bounds> Parameters::range(std::string_view name, Bounds bounds) {
  const std::optional<std::string_view> given = take(name);
  if (!given) return std::nullopt;
  std::string_view last = *given;
  const std::optional<std::uint64_t> least = parse_number<std::uint64_t>(take_until(last, '-'));
  const std::optional<std::uint64_t> most = last.empty() ? least : parse_number<std::uint64_t>(last);
  if (least && most && *least >= bounds.least && *least <= *most && *most <= bounds.most) return Bounds{*least, *most};
  reject(name, *given, fmt::format("an integer from {} to {}, or FIRST-LAST", bounds.least, bounds.most));
  return std::nullopt;
}

bool Parameters::flag(std::string_view name, bool fallback) {
  return integer(name, fallback ? 1 : 0, {.least = 0, .most = 1}) == 1;
}

double Parameters::number(std::string_view name, double fallback, double least, double most) {
  const std::optional<std::string_view> given = take(name);
  if (!given) return fallback;
  const std::optional<double> value = parse_number<double>(*given);
  if (value && *value >= least && *value <= most) return *value;
  reject(name, *given, fmt::format("a number from {} to {}", least, most));
  return fallback;
}

Seed Parameters::seed(std::string_view name, Seed fallback) {
  const std::optional<std::string_view> given = take(name);
  if (!given) return fallback;
  if (const std::optional<Seed> value = Seed::parse(*given)) return *value;
  reject(name, *given, "an integer of at most 128 bits");
  return fallback;
}

std::vector<Seed> Parameters::seeds(std::string_view name, Seed fallback) {
  const std::optional<std::string_view> given = take(name);
  if (!given) return {fallback};
  constexpr std::size_t kMost = 16;  // lists in use have two to four
  std::vector<Seed> values;
  std::string_view rest = *given;
  do {
    const std::optional<Seed> value = Seed::parse(take_until(rest, '/'));
    if (!value || values.size() == kMost) {
      reject(name, *given, "up to 16 integers of at most 128 bits, separated by /");
      return {fallback};
    }
    values.push_back(*value);
  } while (!rest.empty());
  return values;
}

std::size_t Parameters::choice(std::string_view name, std::initializer_list<std::string_view> allowed) {
  const std::optional<std::string_view> given = take(name);
  if (!given) return 0;
  const auto found = std::ranges::find(allowed, *given);
  if (found != allowed.end()) return static_cast<std::size_t>(found - allowed.begin());
  reject(name, *given, fmt::format("{}", fmt::join(allowed, ", ")));
  return 0;
}

std::optional<std::string> Parameters::text(std::string_view name) {
  const std::optional<std::string_view> given = take(name);
  return given ? std::optional<std::string>(*given) : std::nullopt;
}

io::Status Parameters::finish() {
  for (const auto& [name, value] : values_) {
    if (std::ranges::find(known_, name) != known_.end()) continue;
    fail(fmt::format("no parameter {}; allowed: {}", quoted(name),
                     known_.empty() ? "none" : fmt::format("{}", fmt::join(known_, ", "))));
  }
  if (problem_.empty()) return {};
  return io::make_error(io::ErrorCode::kInvalidArgument, fmt::format("order {}: {}", quoted(family_), problem_));
}

}  // namespace headrace::cache
