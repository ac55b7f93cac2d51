// SPDX-License-Identifier: Apache-2.0
// Percent encoding as Amazon's signature wants it: everything but letters, digits, '-', '.', '_' and '~', in capital
// hex digits. The text that is signed is the text that is sent, byte for byte.
//
//   encode_path("a b/c+d")                               // "a%20b/c%2Bd"
//   make_query({{"prefix", "a/b"}, {"list-type", "2"}})  // "list-type=2&prefix=a%2Fb"
//
// Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headrace::cache {

[[nodiscard]] std::string encode_path(std::string_view path);  // '/' stays
[[nodiscard]] std::string encode_value(std::string_view text);
// Sorted by the encoded names. A parameter without a value keeps its '='.
[[nodiscard]] std::string make_query(std::vector<std::pair<std::string, std::string>> parameters);
// As stores write keys with encoding-type=url: '+' is a blank (boto decodes so, too). nullopt: '%' without two digits.
[[nodiscard]] std::optional<std::string> decode_key(std::string_view encoded);

}  // namespace headrace::cache
