// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/options/command.h"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <system_error>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace headrace::cli {
namespace {

template <typename Value>
constexpr bool kIsList = false;
template <typename Value>
constexpr bool kIsList<std::vector<Value>> = true;
// Whether it is a variable with a value of its own, which a flag's is not.
template <typename Kind>
constexpr bool kHasValue =
    std::is_pointer_v<Kind> && !std::is_function_v<std::remove_pointer_t<Kind>> && !std::is_same_v<Kind, bool*>;

std::string to_text(const std::string& value) {
  return value;
}
std::string to_text(const std::filesystem::path& value) {
  return value.string();
}
std::string to_text(std::uint64_t value) {
  return std::to_string(value);
}
template <typename Value>
std::string to_text(const std::vector<Value>& values) {
  std::string text;
  for (const Value& value : values) text += (text.empty() ? "" : ", ") + to_text(value);
  return text;
}

bool parse(const std::string& text, std::string& value) {
  value = text;
  return true;
}
bool parse(const std::string& text, std::filesystem::path& value) {
  value = text;
  return true;
}
// "-1" is no number here, and neither is "010", which could be 8.
template <std::unsigned_integral Number>
bool parse(const std::string& text, Number& number) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc{} && end == text.data() + text.size() && (text[0] != '0' || number == 0);
}

tl::unexpected<io::Error> wrong(std::string text) {
  return io::make_error(io::ErrorCode::kInvalidArgument, std::move(text));
}

template <typename Value>
io::Status set(Value& value, const Option& option) {
  if (option.given.size() > 1) return wrong(fmt::format("{} takes one value only", option.name));
  if (parse(option.given.front(), value)) return {};
  return wrong(fmt::format("{}: '{}' is not a whole number from 0 on", option.name, option.given.front()));
}

template <typename Value>
io::Status set(std::vector<Value>& list, const Option& option) {
  list.clear();
  for (const std::string& text : option.given) {
    if (parse(text, list.emplace_back())) continue;
    return wrong(fmt::format("{} = {} makes no sense", option.name, fmt::join(option.given, ",")));
  }
  return {};
}

std::string text_of(const Target& target) {
  const auto show = []<typename Kind>(const Kind& kind) -> std::string {
    if constexpr (kHasValue<Kind>) return to_text(*kind);
    return {};
  };
  return std::visit(show, target);
}

}  // namespace

bool Option::is_flag() const {
  return std::visit([]<typename Kind>(const Kind&) { return !kHasValue<Kind>; }, target);
}

bool Option::is_list() const {
  return std::visit([]<typename Kind>(const Kind&) { return kIsList<std::remove_pointer_t<Kind>>; }, target);
}

std::vector<std::string> Option::choices() const {
  const bool has_choices = !is_argument() && value.find('|') != std::string_view::npos;
  return has_choices ? split_at('|', value) : std::vector<std::string>();
}

io::Status Option::take(const std::vector<std::string>& values) {
  given.clear();
  for (const std::string& text : values) {
    if (!parts_at_commas || text.empty()) {
      given.push_back(text);
      continue;
    }
    for (std::string& part : split_at(',', text)) {
      if (!part.empty()) given.push_back(std::move(part));
    }
  }
  if (given.empty()) return wrong(fmt::format("{} needs a value", name));
  const auto set_target = [this]<typename Kind>(const Kind& kind) -> io::Status {
    if constexpr (kHasValue<Kind>) return set(*kind, *this);
    return {};
  };
  return std::visit(set_target, target);
}

Command::Command(std::string_view group_in, std::string_view name_in, std::string_view description_in)
    : name(name_in), description(description_in), group(group_in) {
  add({.name = "--help", .letter = 'h', .target = HelpPage{}, .help = "Print this help"});
}

void Command::add(Option option) {
  if (option.shows_default) option.default_text = text_of(option.target);
  options.push_back(std::move(option));
}

std::vector<std::string> split_at(char separator, std::string_view text) {
  std::vector<std::string> parts;
  do {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  } while (!text.empty());
  return parts;
}

}  // namespace headrace::cli
