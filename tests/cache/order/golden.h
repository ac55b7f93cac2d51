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
[[nodiscard]] const json& golden(std::string_view file);

// Full lists element by element; longer ones by length, first 16, last 4 and, where given, XXH64 of little-endian
// int64.
[[nodiscard]] bool matches(const std::vector<cache::SampleIndex>& order, const json& entry);
// For orders of which a part is drawn only.
[[nodiscard]] bool begins(const std::vector<cache::SampleIndex>& order, const json& entry);
// How many entries of the file matches() or begins() was asked about, and how many not.
struct Compared {
  std::size_t orders = 0;
  std::size_t left_out = 0;
};
[[nodiscard]] Compared compared_in(const json& file);

// Each compares everything in its file of golden orders with ours; golden_test.cpp sees to it that nothing is left out.
void check_torch_randperm(const json& file);
void check_torch_randperm_huge(const json& file);
void check_random_sampler(const json& file);
void check_random_sampler_of_torch_1_7(const json& file);
void check_torch_distributed(const json& file);
void check_torch_misc(const json& file);
void check_repeated_augmentation(const json& file);
void check_infinite_samplers(const json& file);
void check_numpy(const json& file);
void check_python(const json& file);
void check_dali(const json& file);
void check_ffcv(const json& file);
void check_streaming(const json& file);
void check_webdataset(const json& file);

// Epoch `epoch` of `spec` over `n` samples. Ends the test case when the spec is refused.
[[nodiscard]] std::vector<cache::SampleIndex> epoch_of(const std::string& spec, std::uint64_t n, std::uint64_t epoch);
[[nodiscard]] std::unique_ptr<cache::Order> order_of(const std::string& spec, std::uint64_t n);
// The error message of a spec that must be refused; "" when it is not.
[[nodiscard]] std::string refusal_of(const std::string& spec, std::uint64_t n = 10);

}  // namespace headrace::test
