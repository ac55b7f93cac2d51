// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "headrace/cache/order/mt19937.h"
#include "headrace/cache/order/pcg64.h"

#include "cache/order/golden.h"

using namespace headrace::cache;
using namespace headrace::test;

namespace {

// Seeds beyond 64 bits stand in the files as numbers that json reads as doubles.
std::string seed_text(const json& seed) {
  if (seed.is_array()) return fmt::format("{}", fmt::join(seed.get<std::vector<std::uint32_t>>(), "/"));
  if (!seed.is_number_float()) return std::to_string(seed.get<std::int64_t>());
  return seed.get<double>() < 1e20 ? "18446744073709551621" : "1180591620717411303431";  // 2^64 + 5, 2^70 + 7
}

void check_group(const json& entries, const std::string& spec) {
  CHECK_FALSE(entries.empty());
  for (const json& entry : entries) {
    CAPTURE(spec);
    CAPTURE(entry["seed"]);
    CHECK(matches(epoch_of(spec + ",seed=" + seed_text(entry["seed"]), entry["n"], 0), entry));
  }
}

}  // namespace

TEST_CASE("numpy: every golden permutation and shuffle is reproduced") {
  const json& file = golden("numpy.json");
  check_group(file["RandomState_permutation"], "numpy:rng=randomstate");
  check_group(file["RandomState_shuffle_list"], "numpy:rng=randomstate");
  check_group(file["RandomState_init_by_array"], "numpy:seed_list=1");
  check_group(file["default_rng_permutation"], "numpy:rng=generator");
  check_group(file["default_rng_shuffle_list"], "numpy:rng=generator");
  for (const json& entry : file["np_random_seed_then_permutation_repeated"]) {
    const auto order = order_of("numpy:seed=" + seed_text(entry["seed"]), entry["n"]);
    for (std::size_t call = 0; call < entry["calls"].size(); ++call) {
      CHECK(matches(*order->epoch(call), entry["calls"][call]));
    }
  }
}

TEST_CASE("numpy: raw outputs and bounded integers") {
  const json& file = golden("numpy.json");
  for (const json& entry : file["randint_2_31"]) {
    CHECK((Mt19937(entry["np_seed"].get<std::uint32_t>()).next32() & 0x7fffffffU) == entry["value"]);
  }
  for (const json& entry : file["default_rng_integers_0_1000_size1000"]) {
    Pcg64 engine(Seed(entry["seed"].get<std::uint64_t>()));
    for (const json& value : entry["full"]) {
      // Lemire's rejection threshold is 2^32 % 1000 = 296.
      std::uint64_t product = std::uint64_t{engine.next32()} * 1000;
      while (static_cast<std::uint32_t>(product) < 296) product = std::uint64_t{engine.next32()} * 1000;
      CHECK((product >> 32) == value);
    }
  }
}

TEST_CASE("numpy: epochs can be reseeded, repeated, or shuffle in place") {
  CHECK(epoch_of("numpy:seed=3,epochs=seed+epoch", 99, 4) == epoch_of("numpy:seed=7", 99, 0));
  CHECK(epoch_of("numpy:seed=3,epochs=same", 99, 4) == epoch_of("numpy:seed=3", 99, 0));
  const auto once = epoch_of("numpy:seed=3,epochs=same", 99, 0);
  const auto twice = epoch_of("numpy:seed=3,epochs=same,cumulative=1", 99, 1);
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == once[once[i]]);
}

TEST_CASE("CPython: every golden shuffle and sample is reproduced") {
  const json& file = golden("python_random.json");
  check_group(file["shuffle"], "python:cumulative=0");
  for (const json& entry : file["sample"]) {
    CHECK(matches(epoch_of(fmt::format("python:seed={},sample={}", seed_text(entry["seed"]), entry["k"].get<int>()),
                           entry["population"], 0),
                  entry));
  }
}

TEST_CASE("DALI: every golden order of both libstdc++ generations is reproduced") {
  for (const auto& [file, rule] :
       {std::pair{"dali_std_shuffle.json", "11"}, std::pair{"dali_std_shuffle_gcc10.json", "10"}}) {
    for (const json& entry : golden(file)["cases"]) {
      const int pass = entry["pass"];
      const std::string spec = pass == 0 ? fmt::format("dali:libstdcxx={}", rule)
                                         : fmt::format("dali:mode=shuffle_after_epoch,libstdcxx={},checkpointing={}",
                                                       rule, entry["cumulative"].get<bool>() ? 0 : 1);
      CAPTURE(spec);
      CAPTURE(entry["n"]);
      CHECK(matches(epoch_of(spec, entry["n"], static_cast<std::uint64_t>(pass)), entry));
    }
  }
}

TEST_CASE("DALI: shards are consecutive parts; a rank that does not stick to its shard goes on with the next") {
  const auto list = epoch_of("dali:mode=listed", 10, 0);
  CHECK(epoch_of("dali:mode=listed,replicas=3,rank=1", 10, 0) == std::vector<SampleIndex>{3, 4, 5});
  CHECK(epoch_of("dali:mode=listed,replicas=3,rank=1", 10, 1) == std::vector<SampleIndex>{6, 7, 8, 9});
  CHECK(epoch_of("dali:mode=listed,replicas=3,rank=1,stick_to_shard=1", 10, 1) == std::vector<SampleIndex>{3, 4, 5});
  CHECK(epoch_of("dali:mode=listed,replicas=3", 10, 0) == std::vector<SampleIndex>{0, 3, 6, 1, 4, 7, 2, 5, 8, 9});
}

TEST_CASE("FFCV: golden RANDOM orders are reproduced; distributed is DistributedSampler") {
  for (const json& entry : golden("ffcv.json")["random_not_distributed"]) {
    CHECK(matches(epoch_of("ffcv:seed=" + seed_text(entry["seed"]), entry["n"], entry["epoch"]), entry));
  }
  CHECK(epoch_of("ffcv:distributed=1,seed=4,replicas=2,rank=0", 31, 2) ==
        epoch_of("torch-distributed:seed=4,replicas=2,rank=0", 31, 2));
}

TEST_CASE("DLIO: each epoch shuffles the list of the one before, seeded with 123 + epoch") {
  const auto first = epoch_of("dlio", 40, 0);
  CHECK(first == epoch_of("numpy:seed=124", 40, 0));
  const auto step = epoch_of("numpy:seed=125", 40, 0);
  const auto second = epoch_of("dlio", 40, 1);
  for (std::size_t i = 0; i < second.size(); ++i) CHECK(second[i] == first[step[i]]);
}

TEST_CASE("Keras: one base order for every epoch, validation is its tail") {
  const auto all = epoch_of("numpy:seed=5", 100, 0);
  CHECK(epoch_of("keras:seed=5", 100, 7) == all);
  CHECK(epoch_of("keras:seed=5,validation_split=0.25", 100, 0) == std::vector(all.begin(), all.begin() + 75));
  CHECK(epoch_of("keras:seed=5,validation_split=0.25,subset=validation", 100, 0) ==
        std::vector(all.begin() + 75, all.end()));
  const WorkerLayout slack = order_of("keras:batch=64", 100)->workers();
  CHECK(std::uint64_t{slack.batch} * slack.workers * slack.prefetch_factor == 64 * 8);
}
