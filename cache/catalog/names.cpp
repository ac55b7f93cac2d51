// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/catalog/names.h"

#include <algorithm>
#include <clocale>
#include <cstdint>

#include <wctype.h>

namespace headrace::cache {
namespace {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 1;
  bool valid = true;
};

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// The character at the start of `text` (not empty). Invalid: the byte as surrogateescape maps it.
CodePoint decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(0);
  const CodePoint invalid = {.value = 0xDC00U + lead, .bytes = 1, .valid = false};
  if (lead < 0x80U) return {.value = lead};
  const std::size_t length = lead >= 0xF0U ? 4 : lead >= 0xE0U ? 3 : 2;
  if (lead < 0xC2U || lead > 0xF4U || text.size() < length) return invalid;
  std::uint32_t value = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return invalid;
    value = value << 6U | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800U && value <= 0xDFFFU;
  if (value < kSmallest[length] || value > 0x10FFFFU || surrogate) return invalid;
  return {.value = value, .bytes = length};
}

int compare_code_points(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const CodePoint left = decode(a);
    const CodePoint right = decode(b);
    if (left.value != right.value) return left.value < right.value ? -1 : 1;
    a.remove_prefix(left.bytes);
    b.remove_prefix(right.bytes);
  }
  return static_cast<int>(!a.empty()) - static_cast<int>(!b.empty());
}

// Takes the longest run of digits, or of anything else, off the front.
std::string_view take_run(std::string_view& text, bool digits) {
  const auto end = std::find_if(text.begin(), text.end(), [&](char c) { return is_ascii_digit(c) != digits; });
  const std::string_view run = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(run.size());
  return run;
}

int compare_numbers(std::string_view a, std::string_view b) {
  a.remove_prefix(std::min(a.find_first_not_of('0'), a.size()));
  b.remove_prefix(std::min(b.find_first_not_of('0'), b.size()));
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

void append_utf8(std::string& text, std::uint32_t value) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (value < 0x80U) return put(value);
  if (value < 0x800U) {
    put(0xC0U | value >> 6U);
  } else {
    if (value < 0x10000U) {
      put(0xE0U | value >> 12U);
    } else {
      put(0xF0U | value >> 18U);
      put(0x80U | (value >> 12U & 0x3FU));
    }
    put(0x80U | (value >> 6U & 0x3FU));
  }
  put(0x80U | (value & 0x3FU));
}

// One character, by Unicode's simple mapping; the C library has the table. Without a UTF-8 locale: ASCII only.
std::uint32_t lower_code_point(std::uint32_t value) {
  if (value < 0x80U) return value >= 'A' && value <= 'Z' ? value + ('a' - 'A') : value;
  static const locale_t unicode = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return unicode == nullptr ? value : ::towlower_l(static_cast<wint_t>(value), unicode);
}

}  // namespace

bool is_valid_utf8(std::string_view name) {
  while (!name.empty()) {
    const CodePoint next = decode(name);
    if (!next.valid) return false;
    name.remove_prefix(next.bytes);
  }
  return true;
}

int python_compare(std::string_view a, std::string_view b) {
  return is_valid_utf8(a) && is_valid_utf8(b) ? a.compare(b) : compare_code_points(a, b);
}

int natural_compare(std::string_view a, std::string_view b) {
  while (true) {
    if (const int order = python_compare(take_run(a, false), take_run(b, false)); order != 0) return order;
    if (a.empty() || b.empty()) return static_cast<int>(!a.empty()) - static_cast<int>(!b.empty());
    if (const int order = compare_numbers(take_run(a, true), take_run(b, true)); order != 0) return order;
  }
}

std::string lower_case(std::string_view name) {
  std::string lower;
  lower.reserve(name.size());
  while (!name.empty()) {
    const CodePoint next = decode(name);
    if (next.valid) {
      append_utf8(lower, lower_code_point(next.value));
    } else {
      lower += name.front();
    }
    name.remove_prefix(next.bytes);
  }
  return lower;
}

bool has_suffix(std::string_view name, std::span<const std::string_view> suffixes) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
  return std::any_of(suffixes.begin(), suffixes.end(), [&](std::string_view suffix) {
    return name.size() >= suffix.size() &&
           std::equal(suffix.rbegin(), suffix.rend(), name.rbegin(), [&](char a, char b) { return a == lower(b); });
  });
}

}  // namespace headrace::cache
