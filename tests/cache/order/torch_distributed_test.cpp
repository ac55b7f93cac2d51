// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cache/order/golden.h"

using namespace headrace::cache;
using namespace headrace::test;

namespace {

std::string spec_of(const json& entry) {
  return fmt::format("torch-distributed:seed={},replicas={},rank={},drop_last={},shuffle={}", entry.value("seed", 0),
                     entry["replicas"].get<int>(), entry["rank"].get<int>(), entry["drop_last"].get<bool>() ? 1 : 0,
                     entry.value("shuffle", true) ? 1 : 0);
}

}  // namespace

void headrace::test::check_torch_distributed(const json& file) {
  for (const char* group : {"cases", "fewer_samples_than_replicas"}) {
    for (const json& entry : file[group]) {
      const std::string spec = spec_of(entry);
      CAPTURE(spec);
      CHECK(matches(epoch_of(spec, entry["dataset"], entry.value("epoch", 0)), entry));
    }
  }
}

TEST_CASE("DistributedSampler: without a rank the ranks' samples are interleaved") {
  for (const bool drop_last : {false, true}) {
    const std::string common = fmt::format("torch-distributed:seed=7,replicas=3,drop_last={}", drop_last ? 1 : 0);
    const auto all = epoch_of(common, 100, 4);
    CHECK(all.size() == (drop_last ? 99 : 102));
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const auto one = epoch_of(fmt::format("{},rank={}", common, rank), 100, 4);
      for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i] == all[i * 3 + rank]);
    }
  }
}

TEST_CASE("DistributedSampler: several ranks of many, as one node of a job has them") {
  const auto all = epoch_of("torch-distributed:seed=1,replicas=6,batch=5,workers=2", 100, 0);
  const auto ours = order_of("torch-distributed:seed=1,replicas=6,rank=2-3,batch=5,workers=2", 100);
  CHECK(ours->workers().batch == 10);
  const auto samples = *ours->epoch(0);
  CHECK(samples.size() == 2 * 17);
  CHECK(samples.size() == ours->length(0));
  for (std::size_t i = 0; i < samples.size(); ++i) CHECK(samples[i] == all[i / 2 * 6 + 2 + i % 2]);
}

TEST_CASE("DistributedSampler: a prefix is the beginning of the epoch, for every length") {
  for (const char* spec : {"torch-distributed:seed=3,replicas=4,rank=2", "torch-distributed:replicas=7"}) {
    const auto order = order_of(spec, 1000);
    const auto whole = *order->epoch(2);
    for (std::uint64_t count = 0; count < whole.size() + 3; count += 1 + count / 8) {
      const auto prefix = *order->prefix(2, count);
      CHECK(prefix.size() == std::min<std::uint64_t>(count, whole.size()));
      CHECK(std::equal(prefix.begin(), prefix.end(), whole.begin()));
    }
  }
}

TEST_CASE("DistributedSampler: a script without set_epoch repeats its first order") {
  const auto order = order_of("torch-distributed:seed=5,set_epoch=0", 50);
  CHECK(*order->epoch(0) == *order->epoch(9));
  CHECK(*order->epoch(0) == epoch_of("torch-distributed:seed=5", 50, 0));
}
