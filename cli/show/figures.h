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

// What a store takes for requests: an estimate, with Amazon's price (S3 Standard, us-east-1, 2025). Other stores and
// regions have other prices, and traffic out of a region costs more.
inline constexpr double kDollarsPerGet = 0.0004 / 1000;
inline constexpr double kDollarsPerList = 0.005 / 1000;
[[nodiscard]] double request_dollars(std::uint64_t gets, std::uint64_t lists);
// "an epoch from the bucket takes 1.28M requests, about $0.51 at Amazon's $0.0004 per 1 000 (S3 Standard); traffic ..."
[[nodiscard]] std::string describe_epoch_price(std::uint64_t requests);

// Of the steady clock.
[[nodiscard]] double seconds_since(std::chrono::steady_clock::time_point start);

}  // namespace headrace::cli
