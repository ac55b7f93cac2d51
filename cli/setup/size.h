// SPDX-License-Identifier: Apache-2.0
// Sizes as people write them: "512M", "1.5 GiB", "40%".
//
//   Result<std::uint64_t> bytes = parse_size("1.5G");                        // 1'610'612'736
//   Result<std::uint64_t> share = parse_size("25%", memory_limit_bytes());   // a quarter of it
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "headrace/io/result.h"

namespace headrace::cli {

// Units are powers of 1024: K, M, G, T, each also as KB or KiB, in either case; no unit: bytes. A fraction is allowed.
// `percent_of_bytes` is what "%" refers to; 0: a percentage is refused.
// Errors: kInvalidArgument, with a sentence that says what is wrong with `text` and what would be right.
[[nodiscard]] io::Result<std::uint64_t> parse_size(std::string_view text, std::uint64_t percent_of_bytes = 0);

// At most 9 characters: "0 B", "812 B", "1.5 MiB", "40.0 GiB", "312 GiB".
[[nodiscard]] std::string format_size(std::uint64_t bytes);
// At most 7 characters: "812", "51.2k", "1.28M".
[[nodiscard]] std::string format_count(std::uint64_t count);
// "0:07", "12:30", "3:05:00".
[[nodiscard]] std::string format_duration(double seconds);

}  // namespace headrace::cli
