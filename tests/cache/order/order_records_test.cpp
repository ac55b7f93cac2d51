// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/learn/records.h"

#include "support/temp_dir.h"

namespace headrace::cache::order_records_test {
namespace {

const SampleRange kRange{.first = 0, .count = 400};

std::vector<std::string> specs_of(const Records& records) {
  std::vector<std::string> specs;
  for (const CandidateGroup& group : records.candidates().specs) specs.push_back(group.spec);
  return specs;
}

TEST_CASE("order records: what was found is tried again, the newest first, with a folder or without") {
  const test::TempDir folder;
  for (const std::filesystem::path& root : {std::filesystem::path(), folder.path()}) {
    Records records(root, kRange);
    records.keep_spec("sequential");
    records.keep_spec("torch-distributed:seed=0");
    records.keep_spec("recorded:/somewhere");  // that file is a candidate of its own
    CHECK(specs_of(records) == std::vector<std::string>{"torch-distributed:seed=0", "sequential"});
    records.keep_spec("sequential");
    CHECK(specs_of(records) == std::vector<std::string>{"sequential", "torch-distributed:seed=0"});
    CHECK(specs_of(Records(root, kRange)).size() == (root.empty() ? 0 : 2));
  }
}

TEST_CASE("order records: of a data set that many jobs read, the last eight specs stay") {
  Records records({}, kRange);
  for (int seed = 0; seed < 20; ++seed) records.keep_spec("torch-distributed:seed=" + std::to_string(seed));
  const std::vector<std::string> specs = specs_of(records);
  REQUIRE(specs.size() == 8);
  CHECK(specs.front() == "torch-distributed:seed=19");
  CHECK(specs.back() == "torch-distributed:seed=12");
}

}  // namespace
}  // namespace headrace::cache::order_records_test
