// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <span>
#include <string>

#include <doctest/doctest.h>

#include "headrace/cache/order.h"
#include "headrace/cache/order_families.h"

#include "support/temp_dir.h"

namespace spec_fuzz_test {

using namespace headrace::cache;
using namespace headrace::test;

namespace {

const char* const kSpecs[] = {
    "sequential:replicas=3,rank=1",
    "torch-distributed:seed=7,replicas=4,rank=0-2,drop_last=1,batch=8,workers=2,prefetch_factor=3",
    "torch-distributed:shuffle=0,set_epoch=0,torch=1.13",
    "torch-random:generator=explicit,seed=-5,persistent=1,batch=9,workers=2,stop=3",
    "torch-random:seed=42,offset=10,stride=6,replacement=1,num_samples=17",
    "torch-random:num_samples=100,generator=explicit",
    "torch-subset:range=1:9:2,seed=3",
    "torch-subset:split=5/5,part=1,split_seed=4,of=hf-trainer:batch=2,replicas=2",
    "ra-sampler:variant=timm,num_repeats=1.5,replicas=3,rank=2,selected_round=0,selected_ratio=2",
    "hf-trainer:seed=1,replicas=2,rank=1,batch=4,even_batches=0",
    "lightning:seed=5,replicas=2",
    "detectron2:replicas=3,rank=1",
    "mmengine:sampler=infinite,seed=8,replicas=2,rank=0",
    "mmengine:round_up=0,replicas=7,rank=3",
    "numpy:rng=generator,seed=18446744073709551621,epochs=seed+epoch",
    "numpy:seed=1/2/3,cumulative=1",
    "python:seed=-99999999999999999999,sample=3",
    "dali:mode=shuffle_after_epoch,libstdcxx=10,checkpointing=1,replicas=3,rank=1",
    "ffcv:distributed=1,replicas=2",
    "dlio:first_epoch=0,seed_change_epoch=0",
    "grain:seed=4294967295,replicas=3,rank=1,batch=2",
    "streaming:shard_sizes=/dev/null,algorithm=py1br,canonical_nodes=2,block_size=8,replicas=2",
    "litdata:chunk_sizes=/dev/null,seed=7,workers=2,replicas=3,rank=1-2,drop_last=1,batch=4",
    "webdataset:mode=detshuffle,seed=-3,shardshuffle=5,initial=2,workers=3,replicas=2",
    "torch-weighted:weights=/dev/null,generator=explicit,seed=1,num_samples=9,offset=2",
    "megatron:documents=/dev/null,samples=/etc,shuffle=/none,replicas=2,rank=1,batch=3,drop_last=0",
    "first:samples=3,of=torch-distributed:replicas=2",
    "first:samples=99,of=torch-subset:range=2:9,of=python:seed=1",
    "keras:validation_split=0.2,subset=validation,batch=4",
};

constexpr int kRounds = 20'000;

int rounds() {
  const char* asked = std::getenv("HEADRACE_FUZZ_ROUNDS");
  return asked != nullptr ? std::atoi(asked) : kRounds;
}

template <typename Container>
const auto& pick(const Container& from, std::mt19937_64& random) {
  return *(std::begin(from) + static_cast<std::ptrdiff_t>(random() % std::size(from)));
}

std::string mutated(std::mt19937_64& random) {
  std::string spec = pick(kSpecs, random);
  for (std::uint64_t changes = random() % 4; changes > 0 && !spec.empty(); --changes) {
    const std::size_t at = random() % spec.size();
    constexpr std::string_view kCharacters = "0123456789=,:-/.aeo \xff\x01";
    switch (random() % 4) {
      case 0:
        spec.erase(at, random() % 5);
        break;
      case 1:
        spec.insert(at, 1, pick(kCharacters, random));
        break;
      case 2:
        spec[at] = pick(kCharacters, random);
        break;
      default:
        spec += "," + std::string(pick(kSpecs, random)).substr(at % 10);
    }
  }
  return spec;
}

// Whatever was accepted draws indices of the data set only, as many as it says, and short forms begin the long one.
void check_order(const Order& order, std::uint64_t n, std::uint64_t epoch) {
  const auto whole = order.epoch(epoch);
  if (!whole) return;
  CHECK(whole->size() == order.length(epoch));
  CHECK(std::ranges::all_of(*whole, [&](SampleIndex sample) { return sample < n; }));
  const auto part = order.prefix(epoch, whole->size() / 3);
  REQUIRE(part);
  CHECK(part->size() == whole->size() / 3);
  CHECK(std::ranges::equal(*part, std::span(*whole).first(part->size())));
}

// The files and folders of these examples do not exist, and what they list bounds the samples.
bool reads_lists(const OrderFamily& family) {
  constexpr std::array kNames = {"file", "recorded", "streaming", "torch-weighted", "litdata", "megatron"};
  return std::ranges::find(kNames, family.name) != kNames.end();
}

}  // namespace

TEST_CASE("fuzzed order specs are refused with a message or draw from the data set") {
  std::mt19937_64 random(20261120);
  int accepted = 0;
  for (int round = rounds(); round > 0; --round) {
    const std::string spec = mutated(random);
    const std::uint64_t n = random() % 300;
    CAPTURE(spec);
    CAPTURE(n);
    const auto order = make_order(spec, {.sample_count = n, .find_sample = nullptr});
    if (!order) {
      CHECK_FALSE(order.error().message().empty());
      continue;
    }
    ++accepted;
    // An accepted number of repeats or samples may make epochs of millions: they are not drawn here.
    if ((*order)->length(0) < 100'000) check_order(**order, n, random() % 3);
  }
  CHECK(accepted > rounds() / 10);
}

TEST_CASE("orders of the largest data sets have their lengths and first elements") {
  for (const std::uint64_t n : {std::uint64_t{1} << 32, (std::uint64_t{1} << 32) - 1, std::uint64_t{214'748'363}}) {
    for (const char* spec : {"sequential", "torch-distributed:torch=2.5,replicas=3", "torch-random:torch=2.5",
                             "mmengine:torch=2.5,replicas=8,rank=7", "ra-sampler:torch=2.5,replicas=2"}) {
      const auto order = make_order(spec, {.sample_count = n, .find_sample = nullptr});
      REQUIRE(order);
      CHECK((*order)->length(0) >= n / 8);
      const auto first = (*order)->prefix(0, 10);
      REQUIRE(first);
      CHECK(first->size() == 10);
      CHECK(std::ranges::all_of(*first, [&](SampleIndex sample) { return sample < n; }));
    }
  }
}

TEST_CASE("every family has orders of one sample") {
  for (const OrderFamily& family : order_families()) {
    if (reads_lists(family)) continue;
    const std::string spec = family.name == "torch-subset" ? "torch-subset:range=0:1" : std::string(family.example);
    CAPTURE(spec);
    const auto order = make_order(spec, {.sample_count = 1, .find_sample = nullptr});
    REQUIRE(order);
    CHECK(((*order)->length(0) > 0) == (family.name != "ra-sampler"));  // which reads whole 256 only
    for (const std::uint64_t epoch : {0, 1, 7}) {
      REQUIRE((*order)->epoch(epoch).has_value());
      check_order(**order, 1, epoch);
    }
  }
}

TEST_CASE("every family has orders of 2^32 samples or says how many it takes") {
  std::size_t drawn = 0;
  for (const OrderFamily& family : order_families()) {
    if (reads_lists(family)) continue;
    const bool of_torch = std::ranges::find(family.parameters, "torch") != family.parameters.end();
    std::string spec(family.example);
    if (family.name == "torch-subset") spec = "torch-subset:range=0:4294967296:65536";
    if (family.name == "first") spec = "first:samples=65536,of=torch-distributed:seed=0";
    if (of_torch) spec += ",torch=2.5";  // later releases have no short form for so many
    CAPTURE(spec);
    const auto order = make_order(spec, {.sample_count = std::uint64_t{1} << 32, .find_sample = nullptr});
    if (!order) {
      CHECK(order.error().message().find("at most 2^32 - 1 samples") != std::string::npos);
      CHECK(make_order(spec, {.sample_count = UINT32_MAX, .find_sample = nullptr}).has_value());
      continue;
    }
    CHECK((*order)->length(0) >= 1 << 16);
    if (!of_torch) continue;  // drawing takes 16 GiB
    const auto first = (*order)->prefix(0, 1000);
    REQUIRE(first);
    CHECK(first->size() == 1000);
    CHECK(std::ranges::max(*first) > UINT32_MAX / 2);
    ++drawn;
  }
  CHECK(drawn == 8);
}

TEST_CASE("fuzzed order files are refused with a line number or hold samples of the data set") {
  const TempDir dir;
  std::mt19937_64 random(7);
  const OrderInput input{.sample_count = 50, .find_sample = [](std::string_view path) -> std::optional<SampleIndex> {
                           return path.size() == 3 ? std::optional<SampleIndex>(7) : std::nullopt;
                         }};
  for (int round = rounds() / 40; round > 0; --round) {
    std::string content;
    for (std::uint64_t bytes = random() % 200; bytes > 0; --bytes) {
      constexpr std::string_view kCharacters = "0123456789\n\n\n\r ax/\xef\xbb\xbf\x80";
      content += pick(kCharacters, random);
    }
    content += std::string(random() % 2, '\0');
    const auto order = make_order("file:" + dir.write("order", content).string(), input);
    if (order) {
      check_order(**order, input.sample_count, 0);
    } else {
      CHECK(order.error().message().find(", line ") != std::string::npos);
    }
  }
}

}  // namespace spec_fuzz_test
