// SPDX-License-Identifier: Apache-2.0
#include "cache/order/golden.h"

#include <filesystem>
#include <map>

#include <doctest/doctest.h>

namespace golden_test {

using namespace headrace::test;

namespace {

struct GoldenFile {
  void (*check)(const json& file);
  std::size_t orders;        // that check() compares
  std::size_t left_out = 0;  // that it does not, with the reason
};

const std::map<std::string, GoldenFile> kFiles = {
    {"torch_randperm.json", {check_torch_randperm, 109}},
    // 64-bit draws take 860 MB: "torch.randperm: from 214748364 elements ..." compares them when asked to.
    {"torch_randperm_huge.json", {check_torch_randperm_huge, 8, 4}},
    {"torch_random_sampler.json", {check_random_sampler, 200}},
    {"torch_random_sampler_1.7.json", {check_random_sampler_of_torch_1_7, 188}},
    {"torch_distributed.json", {check_torch_distributed, 193}},
    // Weighted sampling without replacement: it depends on the library of numbers that torch was built with.
    {"torch_misc.json", {check_torch_misc, 7, 2}},
    {"ra_samplers.json", {check_repeated_augmentation, 87}},
    {"infinite_samplers.json", {check_infinite_samplers, 51}},
    {"numpy.json", {check_numpy, 121}},
    {"python_random.json", {check_python, 66}},
    {"dali_std_shuffle.json", {check_dali, 44}},
    {"dali_std_shuffle_gcc10.json", {check_dali, 44}},
    {"ffcv.json", {check_ffcv, 9}},
    {"streaming.json", {check_streaming, 45}},
    {"webdataset.json", {check_webdataset, 26}},
};

}  // namespace

TEST_CASE("orders: every golden order of every file is reproduced") {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HEADRACE_TEST_DATA)) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() != ".json" || name == "listing.json") continue;  // listing_test.cpp
    CAPTURE(name);
    REQUIRE(kFiles.contains(name));
    const GoldenFile& expected = kFiles.at(name);
    const json& file = golden(name);
    expected.check(file);
    const Compared compared = compared_in(file);
    CHECK(compared.orders == expected.orders);
    CHECK(compared.left_out == expected.left_out);
    ++files;
  }
  CHECK(files == kFiles.size());
}

}  // namespace golden_test
