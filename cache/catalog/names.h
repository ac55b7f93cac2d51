// SPDX-License-Identifier: Apache-2.0
// How loaders written in Python compare and classify file names, which are bytes and only usually UTF-8.
//
// Thread-safety: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace headrace::cache {

[[nodiscard]] bool is_valid_utf8(std::string_view name);

// Python's order of the file names `a` and `b` (os.fsdecode, then str comparison): a byte that is not part of valid
// UTF-8 counts as the code point 0xDC00 + byte. For valid names that is the order of their bytes.
[[nodiscard]] int python_compare(std::string_view a, std::string_view b);

// timm's order of two paths that went through lower_case(): digit runs compare as numbers, the rest as text.
[[nodiscard]] int natural_compare(std::string_view a, std::string_view b);

// str.lower() as far as it maps one character to one.
[[nodiscard]] std::string lower_case(std::string_view name);

// Whether `name` ends in one of the suffixes (given in lower case), whatever its case.
[[nodiscard]] bool has_suffix(std::string_view name, std::span<const std::string_view> suffixes);

}  // namespace headrace::cache
