// SPDX-License-Identifier: Apache-2.0
#include "cache/order/golden.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <doctest/doctest.h>
#include <xxhash.h>

namespace headrace::test {
namespace {

using cache::SampleIndex;

[[nodiscard]] std::string xxh64_of(const std::vector<SampleIndex>& order) {
  const std::vector<std::int64_t> wide(order.begin(), order.end());
  char hex[17];
  std::snprintf(hex, sizeof(hex), "%016llx",
                static_cast<unsigned long long>(XXH64(wide.data(), wide.size() * sizeof(wide[0]), 0)));
  return hex;
}

std::set<const json*>& compared() {
  static std::set<const json*> entries;
  return entries;
}

void count(const json& part, Compared& sum) {
  if (part.is_object() && (part.contains("sha256") || part.contains("head"))) {
    ++(compared().contains(&part) ? sum.orders : sum.left_out);
  } else if (part.is_structured()) {
    for (const json& child : part) count(child, sum);
  }
}

}  // namespace

const json& golden(std::string_view file) {
  static std::map<std::string, json> read;
  const auto [entry, is_new] = read.try_emplace(std::string(file));
  if (is_new) {
    const std::string& name = entry->first;
    std::ifstream stream(std::filesystem::path(HEADRACE_TEST_DATA) / name);
    REQUIRE_MESSAGE(stream.is_open(), name);
    entry->second = json::parse(stream);
  }
  return entry->second;
}

bool begins(const std::vector<SampleIndex>& order, const json& entry) {
  compared().insert(&entry);
  const auto head = entry["head"].get<std::vector<SampleIndex>>();
  return order.size() >= head.size() && std::equal(head.begin(), head.end(), order.begin());
}

Compared compared_in(const json& file) {
  Compared sum;
  count(file, sum);
  return sum;
}

bool matches(const std::vector<SampleIndex>& order, const json& entry) {
  compared().insert(&entry);
  if (order.size() != entry["n"].get<std::size_t>()) return false;
  if (entry.contains("full")) return order == entry["full"].get<std::vector<SampleIndex>>();
  const auto tail = entry["tail"].get<std::vector<SampleIndex>>();
  return begins(order, entry) && std::equal(tail.rbegin(), tail.rend(), order.rbegin()) &&
         (!entry.contains("xxh64") || entry["xxh64"] == xxh64_of(order));
}

std::unique_ptr<cache::Order> order_of(const std::string& spec, std::uint64_t n) {
  auto order = cache::make_order(spec, {.sample_count = n, .find_sample = {}});
  REQUIRE_MESSAGE(order.has_value(), spec << ": " << order.error().message());
  return std::move(*order);
}

std::vector<SampleIndex> epoch_of(const std::string& spec, std::uint64_t n, std::uint64_t epoch) {
  auto samples = order_of(spec, n)->epoch(epoch);
  REQUIRE_MESSAGE(samples.has_value(), spec);
  return std::move(*samples);
}

std::string refusal_of(const std::string& spec, std::uint64_t n) {
  const auto order = cache::make_order(spec, {.sample_count = n, .find_sample = {}});
  return order ? "" : order.error().message();
}

}  // namespace headrace::test
