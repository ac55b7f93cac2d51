// SPDX-License-Identifier: Apache-2.0
// What a mount's figures say of the order that it follows, in words.
//
//   if (const std::string search = describe_search(stat["mount"]); !search.empty()) fmt::print("{}\n", search);
//
// Thread-safety: any thread.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace headrace::cli {

// "searching all seeds: 1.20G of 26.7G tested, 50.0M a second, at most 8:30 left"; "" while no such search is under
// way.
[[nodiscard]] std::string describe_search(const nlohmann::json& mount);
// Which order a part of the opens contradicts, and what to do; "" where few do, and where the order was given up, which
// is told by itself.
[[nodiscard]] std::string describe_wrong_order(const nlohmann::json& mount);
// That nothing is read ahead now, and why; "" while it is.
[[nodiscard]] std::string describe_pause(const nlohmann::json& mount);

}  // namespace headrace::cli
