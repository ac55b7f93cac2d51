// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order/torch_randperm.h"

#include <doctest/doctest.h>

#include "cache/order/golden.h"

using namespace headrace::cache;
using namespace headrace::test;

namespace {

Mt19937 seeded(const json& seed) {
  return Mt19937(static_cast<std::uint32_t>(seed.get<std::int64_t>()));
}

}  // namespace

void headrace::test::check_torch_randperm(const json& file) {
  for (const char* group : {"fresh_generator", "dtype"}) {
    for (const json& entry : file[group]) {
      CAPTURE(entry["seed"]);
      Mt19937 generator = seeded(entry["seed"]);
      CHECK(matches(torch_randperm(generator, entry["n"], entry["n"]), entry));
    }
  }
  for (const json& entry : file["same_generator_repeated"]) {
    Mt19937 generator = seeded(entry["seed"]);
    for (const json& call : entry["calls"]) CHECK(matches(torch_randperm(generator, entry["n"], entry["n"]), call));
  }
  Mt19937 narrow(42);
  for (const json& value : file["raw_uint32_seed42"]) CHECK(narrow.next32() % (1U << 27) == value);
  Mt19937 wide(42);
  for (const json& value : file["random_int64_seed42"]) CHECK((wide.next64_high_first() & INT64_MAX) == value);
}

// Below 214748364 elements every version has the 32-bit rule; the orders beyond have a case of their own below.
void headrace::test::check_torch_randperm_huge(const json& file) {
  for (const auto& [version, entries] : file["by_torch_version"].items()) {
    const TorchVersion torch = version.starts_with("1.13") ? TorchVersion{1, 13} : TorchVersion{2, 6};
    for (const json& entry : entries) {
      if (torch.uses_wide_draws(entry["n"])) continue;
      Mt19937 generator = seeded(entry["seed"]);
      CHECK(begins(torch_randperm(generator, entry["n"], 16, torch), entry));
    }
  }
}

TEST_CASE("MT19937: by_array with the published key gives the published first output") {
  // mt19937ar.out by Matsumoto and Nishimura.
  const std::uint32_t key[] = {0x123, 0x234, 0x345, 0x456};
  CHECK(Mt19937::by_array(key).next32() == 1067595299U);
}

TEST_CASE("MT19937: discarding outputs equals drawing them") {
  for (const std::uint64_t count : {0U, 1U, 623U, 624U, 625U, 1248U, 10'000U}) {
    Mt19937 drawn(42);
    Mt19937 skipped(42);
    for (std::uint64_t i = 0; i < count; ++i) static_cast<void>(drawn.next32());
    skipped.discard(count);
    CHECK(drawn.next32() == skipped.next32());
    skipped.discard(700);
    drawn.discard(700);
    CHECK(drawn.next32() == skipped.next32());
  }
}

TEST_CASE("MT19937: an output is found where it is drawn, and none that is not drawn") {
  for (const std::uint64_t place : {0U, 1U, 500U, 623U, 624U, 850U, 5000U}) {
    for (const std::uint64_t skipped : {0U, 1U, 300U, 624U}) {
      Mt19937 stream(7);
      stream.discard(skipped);
      Mt19937 drawn = stream;
      drawn.discard(place);
      CAPTURE(place);
      CAPTURE(skipped);
      CHECK(stream.find(drawn.next32(), 10'000) == place);
      CHECK(stream.next32() == drawn.next32());
    }
  }
  Mt19937 stream(7);
  Mt19937 drawn(7);
  drawn.discard(20 * Mt19937::kStateWords);
  CHECK_FALSE(stream.find(drawn.next32(), 10 * Mt19937::kStateWords));
}

TEST_CASE("torch.randperm: the first elements come without the rest") {
  for (const json& entry : golden("torch_randperm.json")["fresh_generator"]) {
    if (!entry.contains("head")) continue;
    Mt19937 generator = seeded(entry["seed"]);
    CHECK(torch_randperm(generator, entry["n"], 16) == entry["head"].get<std::vector<SampleIndex>>());
  }
}

TEST_CASE("torch.randperm: from 214748364 elements torch 2.6 has the 64-bit rule" * doctest::skip()) {
  // 860 MB and several seconds each: run with --no-skip.
  for (const json& entry : golden("torch_randperm_huge.json")["by_torch_version"]["2.14.1+debian"]) {
    Mt19937 generator = seeded(entry["seed"]);
    const auto order = torch_randperm(generator, entry["n"], entry["n"]);
    CHECK(std::vector(order.begin(), order.begin() + 16) == entry["head"].get<std::vector<SampleIndex>>());
    CHECK(std::vector(order.end() - 4, order.end()) == entry["tail"].get<std::vector<SampleIndex>>());
  }
}

TEST_CASE("torch.randperm: the largest data sets work") {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32;
  Mt19937 generator(1);
  const auto order = torch_randperm(generator, kMost, 3, {.major = 1, .minor = 13});
  Mt19937 raw(1);
  CHECK(order[0] == raw.next32());  // modulo 2^32
  CHECK(order.size() == 3);
}
