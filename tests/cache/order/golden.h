// SPDX-License-Identifier: Apache-2.0
// Orders written by the real libraries (tests/cache/data/README.md), and the comparison with ours.
//
//   for (const json& entry : golden("torch_distributed.json")["cases"]) CHECK(matches(order, entry));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "headrace/cache/order.h"

namespace headrace::test {

using nlohmann::json;

// Read once; stays valid to the end of the program.
[[nodiscard]] const json& golden(const std::string& file);

// Full lists element by element; longer ones by length, first 16, last 4 and, where given, XXH64 of little-endian
// int64.
[[nodiscard]] bool matches(const std::vector<cache::SampleIndex>& order, const json& entry);

// Epoch `epoch` of `spec` over `n` samples. Ends the test case when the spec is refused.
[[nodiscard]] std::vector<cache::SampleIndex> epoch_of(const std::string& spec, std::uint64_t n, std::uint64_t epoch);
[[nodiscard]] std::unique_ptr<cache::Order> order_of(const std::string& spec, std::uint64_t n);
// The error message of a spec that must be refused; "" when it is not.
[[nodiscard]] std::string refusal_of(const std::string& spec, std::uint64_t n = 10);

}  // namespace headrace::test
