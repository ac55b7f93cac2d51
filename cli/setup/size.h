// SPDX-License-Identifier: Apache-2.0
// Sizes as people write them: "512M", "1.5 GiB", "40%".
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

// Units are powers of 1024: K, M, G, T, each also as KB or KiB, in either case; no unit: bytes. A fraction is allowed.
// `percent_of_bytes` is what "%" refers to; 0: a percentage is refused.
// Errors: kInvalidArgument, with a sentence that says what is wrong with `text` and what would be right.
[[nodiscard]] io::Result<std::uint64_t> parse_size(std::string_view text, std::uint64_t percent_of_bytes = 0);

// What --rate-limit says: bytes per second; 0 for an empty text.
[[nodiscard]] io::Result<std::uint64_t> parse_rate_limit(std::string_view text);

}  // namespace headrace::cli
