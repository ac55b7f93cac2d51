// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/disk/record_index.h"

#include <random>
#include <unordered_map>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/disk/record_format.h"

namespace record_index_test {
namespace {

using headrace::cache::record_key;
using headrace::cache::RecordIndex;
using headrace::cache::RecordSlot;

RecordSlot slot_of(std::uint64_t name, std::uint32_t block) {
  return {record_key(1, name), name * 3, name * 5, block, static_cast<std::uint32_t>(name)};
}

TEST_CASE("the index agrees with a map under random inserts and erasures") {
  RecordIndex index;
  std::unordered_map<std::uint64_t, RecordSlot> model;
  std::mt19937_64 random(11);
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    const RecordSlot slot = slot_of(random() % 20'000, i);
    if (random() % 3 == 0) {
      const auto known = model.find(slot.key);
      CHECK_FALSE(index.erase(slot));  // another block: not this record
      if (known == model.end()) continue;
      REQUIRE(index.erase(known->second));
      model.erase(known);
    } else {
      const auto before = index.insert(slot);
      const auto known = model.find(slot.key);
      REQUIRE(before.has_value() == (known != model.end()));
      if (before) REQUIRE(*before == known->second);
      model[slot.key] = slot;
    }
  }
  CHECK(index.size() == model.size());
  for (std::uint64_t name = 0; name < 20'000; ++name) {
    const auto found = index.find(slot_of(name, 0).key);
    const auto known = model.find(slot_of(name, 0).key);
    REQUIRE(found.has_value() == (known != model.end()));
    if (found) REQUIRE(*found == known->second);
  }
}

TEST_CASE("the records in a range of blocks are found, and no others") {
  RecordIndex index;
  for (std::uint32_t i = 0; i < 10'000; ++i) index.insert(slot_of(i, i));
  const std::vector<RecordSlot> found = index.slots_in(2'000, 3'000);
  CHECK(found.size() == 1'000);
  for (const RecordSlot& slot : found) REQUIRE((slot.block >= 2'000 && slot.block < 3'000));
}

}  // namespace

}  // namespace record_index_test
