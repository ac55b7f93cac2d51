// SPDX-License-Identifier: Apache-2.0
// Reads sizes as people write them: "512M", "1.5 GiB", "40%".
//
//   Result<std::uint64_t> bytes = parse_size("1.5G");                        // 1'610'612'736
//   Result<std::uint64_t> share = parse_size("25%", memory_limit_bytes());   // a quarter of it
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "headrace/io/result.h"

namespace headrace::cli {

// Units are powers of 1024: K, M, G, T and P, also written KB or KiB, in upper or lower case. Without a unit the number
// means bytes. Fractions are allowed. "%" means a part of `percent_of_bytes`; with 0 a percentage is refused.
// Errors: kInvalidArgument, with a sentence that says what is wrong with `text` and what would be right.
[[nodiscard]] io::Result<std::uint64_t> parse_size(std::string_view text, std::uint64_t percent_of_bytes = 0);

// Bytes per second from the text of `option`, which an error names; 0 for an empty text.
[[nodiscard]] io::Result<std::uint64_t> parse_rate(std::string_view option, std::string_view text);

}  // namespace headrace::cli
