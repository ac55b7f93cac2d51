// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/uri.h"

#include <algorithm>

namespace headrace::cache {
namespace {

constexpr std::string_view kHexDigits = "0123456789ABCDEF";

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

std::string encode(std::string_view text, bool keep_slash) {
  std::string encoded;
  encoded.reserve(text.size() + 16);
  for (const char c : text) {
    if (is_plain(c) || (keep_slash && c == '/')) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += '%';
    encoded += kHexDigits[byte >> 4U];
    encoded += kHexDigits[byte & 15U];
  }
  return encoded;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string encode_path(std::string_view path) {
  return encode(path, true);
}

std::string encode_value(std::string_view text) {
  return encode(text, false);
}

std::string make_query(std::vector<std::pair<std::string, std::string>> parameters) {
  for (auto& [name, value] : parameters) {
    name = encode_value(name);
    value = encode_value(value);
  }
  std::sort(parameters.begin(), parameters.end());
  std::string query;
  for (const auto& [name, value] : parameters) {
    if (!query.empty()) query += '&';
    query.append(name).append(1, '=').append(value);
  }
  return query;
}

std::optional<std::string> decode_key(std::string_view encoded) {
  std::string key;
  key.reserve(encoded.size());
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] != '%') {
      key += encoded[i] == '+' ? ' ' : encoded[i];
      continue;
    }
    if (i + 2 >= encoded.size()) return std::nullopt;
    const int high = hex_value(encoded[i + 1]);
    const int low = hex_value(encoded[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    key += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return key;
}

}  // namespace headrace::cache
