// SPDX-License-Identifier: Apache-2.0
// Figures as people read them: "1.5 MiB", "51.2k", "12:30".
//
//   fmt::print("{} in {}\n", format_size(bytes), format_duration(seconds));
//
// Thread-safety: any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace headrace::cli {

// At most 9 characters: "0 B", "812 B", "1.5 MiB", "40.0 GiB", "312 GiB".
[[nodiscard]] std::string format_size(std::uint64_t bytes);
// At most 7 characters: "812", "51.2k", "1.28M".
[[nodiscard]] std::string format_count(std::uint64_t count);
// "0:07", "12:30", "3:05:00".
[[nodiscard]] std::string format_duration(double seconds);

// Of the steady clock.
[[nodiscard]] double seconds_since(std::chrono::steady_clock::time_point start);

}  // namespace headrace::cli
