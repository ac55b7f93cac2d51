// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/options/toml.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "headrace/io/printable.h"

namespace headrace::cli {
namespace {

using io::Result;
using io::Status;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto byte = [&](std::uint32_t bits) { text.push_back(static_cast<char>(bits)); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
  }
  byte(0x80 | (code & 0x3F));
}

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  }

  Result<std::vector<Setting>> parse() {
    std::vector<Setting> settings;
    for (skip_blank(true); !rest_.empty(); skip_blank(true)) {
      HEADRACE_TRY(setting, take_setting());
      const bool is_known =
          std::ranges::any_of(settings, [&](const Setting& other) { return other.name == setting.name; });
      if (is_known) return wrong(fmt::format("'{}' is set twice; leave one of them", setting.name));
      settings.push_back(std::move(setting));
      skip_blank(false);
      if (!rest_.empty() && rest_.front() != '\n') {
        return wrong(fmt::format(
            "'{}' follows the value; put a text into quotes, and each setting on a line of its own", rest_of_line()));
      }
    }
    return settings;
  }

 private:
  // Spaces and a comment; with `lines` also what follows them on further lines.
  void skip_blank(bool lines) {
    for (; !rest_.empty(); step()) {
      if (rest_.front() == '#') rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      const bool is_blank = !rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t' || rest_.front() == '\r' ||
                                               (lines && rest_.front() == '\n'));
      if (!is_blank) return;
    }
  }
  void step() {
    if (rest_.front() == '\n') ++line_;
    rest_.remove_prefix(1);
  }
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    step();
    return true;
  }
  [[nodiscard]] std::string rest_of_line() const {
    return io::printable(rest_.substr(0, std::min(rest_.find('\n'), rest_.size())));
  }
  [[nodiscard]] tl::unexpected<io::Error> wrong(const std::string& what) const {
    return io::make_error(io::ErrorCode::kInvalidArgument, fmt::format("line {}: {}", line_, what));
  }

  Result<Setting> take_setting() {
    if (rest_.front() == '[') {
      return wrong(fmt::format("{}: there are no sections; write each option as name = value", rest_of_line()));
    }
    const std::string whole_line = rest_of_line();
    Setting setting;
    if (rest_.front() == '"' || rest_.front() == '\'') {
      HEADRACE_TRY(name, take_quoted());
      setting.name = std::move(name);
    } else {
      while (!rest_.empty() && is_name_character(rest_.front())) {
        setting.name.push_back(rest_.front());
        step();
      }
    }
    skip_blank(false);
    if (setting.name.empty() || !take('=')) {
      return wrong(fmt::format("'{}' sets nothing; write name = value", whole_line));
    }
    skip_blank(false);
    HEADRACE_TRY_DO(take_values(setting));
    return setting;
  }

  Status take_values(Setting& setting) {
    if (!take('[')) return take_value(setting);
    setting.is_list = true;
    const unsigned began = line_;
    for (skip_blank(true); !take(']'); skip_blank(true)) {
      if (!rest_.empty()) HEADRACE_TRY_DO(take_value(setting));
      skip_blank(true);
      const bool goes_on = take(',') || (!rest_.empty() && rest_.front() == ']');
      if (rest_.empty() || !goes_on) {
        return wrong(
            fmt::format("the list '{}', which begins in line {}, has no ] or lacks a comma", setting.name, began));
      }
    }
    return {};
  }

  Status take_value(Setting& setting) {
    if (rest_.starts_with("\"\"\"") || rest_.starts_with("'''")) {
      return wrong("a text of several lines is no value of an option; write it on one line, in single quotes");
    }
    if (!rest_.empty() && (rest_.front() == '"' || rest_.front() == '\'')) {
      HEADRACE_TRY(text, take_quoted());
      setting.values.push_back(std::move(text));
      return {};
    }
    const std::size_t end = std::min(rest_.find_first_of(" \t\r\n#,[]\"'"), rest_.size());
    if (end == 0) return wrong(fmt::format("'{}' has no value; write {} = value", setting.name, setting.name));
    setting.values.emplace_back(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return {};
  }

  // "with \t escapes" or 'as it is'.
  Result<std::string> take_quoted() {
    const char quote = rest_.front();
    step();
    std::string text;
    while (!rest_.empty() && rest_.front() != '\n') {
      if (take(quote)) return text;
      if (quote == '"' && take('\\')) {
        HEADRACE_TRY_DO(take_escape(text));
      } else {
        text.push_back(rest_.front());
        step();
      }
    }
    return wrong(fmt::format("a text has no closing {}", quote));
  }

  Status take_escape(std::string& text) {
    static constexpr std::string_view kNames = "btnfr\"\\";
    static constexpr std::string_view kMeanings = "\b\t\n\f\r\"\\";
    const char name = rest_.empty() ? '\0' : rest_.front();
    if (const std::size_t at = kNames.find(name); at != std::string_view::npos) {
      text.push_back(kMeanings[at]);
      step();
      return {};
    }
    const std::size_t digits = name == 'u' ? 4 : name == 'U' ? 8 : 0;
    std::uint32_t code = 0;
    const std::string_view number = rest_.substr(std::min<std::size_t>(1, rest_.size()), digits);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), code, 16);
    const bool is_code = digits > 0 && number.size() == digits && error == std::errc() &&
                         end == number.data() + digits && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    if (!is_code) return wrong("a \\ in double quotes begins no escape; use single quotes, or \\\\ for a \\");
    append_utf8(text, code);
    rest_.remove_prefix(1 + digits);
    return {};
  }

  std::string_view rest_;
  unsigned line_ = 1;
};

}  // namespace

Result<std::vector<Setting>> parse_toml(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace headrace::cli
