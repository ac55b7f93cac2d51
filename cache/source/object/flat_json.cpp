// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/flat_json.h"

#include <charconv>
#include <cstdint>

#include "headrace/io/secret.h"

namespace headrace::cache {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool take(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  [[nodiscard]] bool sees(char c) {
    skip_blanks();
    return rest_.starts_with(c);
  }
  [[nodiscard]] bool at_end() {
    skip_blanks();
    return rest_.empty();
  }

  [[nodiscard]] bool take_string(std::string& into) {
    io::wipe(into);
    into.reserve(rest_.find('"', 1) == std::string_view::npos ? 0 : rest_.size());  // it never grows
    if (!take('"')) return false;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return true;
      if (c != '\\') {
        into += c;
      } else if (!take_escape(into)) {
        return false;
      }
    }
    return false;
  }

  // A number, a word, an object or an array. Brackets within strings do not count.
  [[nodiscard]] bool skip_value() {
    std::size_t depth = 0;
    std::string ignored;
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '"') {
        const bool good = take_string(ignored);
        io::wipe(ignored);
        if (!good) return false;
        continue;
      }
      if (depth == 0 && (c == ',' || c == '}')) return true;
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && depth-- == 0) return false;
      rest_.remove_prefix(1);
    }
    return false;
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && std::string_view(" \t\r\n").find(rest_.front()) != std::string_view::npos) {
      rest_.remove_prefix(1);
    }
  }

  [[nodiscard]] bool take_escape(std::string& into) {
    if (rest_.empty()) return false;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    if (const std::size_t at = kFrom.find(c); at != std::string_view::npos) {
      into += kTo[at];
      return true;
    }
    if (c != 'u' || rest_.size() < 4) return false;
    std::uint32_t code = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + 4, code, 16);
    if (error != std::errc() || end != rest_.data() + 4) return false;
    rest_.remove_prefix(4);
    return append_utf8(into, code);
  }

  // Keys and tokens are ASCII; half of a surrogate pair is no character.
  [[nodiscard]] static bool append_utf8(std::string& into, std::uint32_t code) {
    if (code >= 0xd800 && code < 0xe000) return false;
    if (code < 0x80) {
      into += static_cast<char>(code);
    } else if (code < 0x800) {
      into += static_cast<char>(0xc0U | code >> 6U);
      into += static_cast<char>(0x80U | (code & 0x3fU));
    } else {
      into += static_cast<char>(0xe0U | code >> 12U);
      into += static_cast<char>(0x80U | (code >> 6U & 0x3fU));
      into += static_cast<char>(0x80U | (code & 0x3fU));
    }
    return true;
  }

  std::string_view rest_;
};

}  // namespace

bool read_flat_json(std::string_view text,
                    const std::function<void(std::string_view name, std::string& value)>& on_value) {
  Scanner scanner(text);
  if (!scanner.take('{')) return false;
  if (scanner.take('}')) return scanner.at_end();
  std::string name;
  std::string value;
  do {
    if (!scanner.take_string(name) || !scanner.take(':')) return false;
    if (scanner.sees('"')) {
      if (!scanner.take_string(value)) return false;
      on_value(name, value);
      io::wipe(value);
    } else if (!scanner.skip_value()) {
      return false;
    }
  } while (scanner.take(','));
  return scanner.take('}') && scanner.at_end();
}

}  // namespace headrace::cache
