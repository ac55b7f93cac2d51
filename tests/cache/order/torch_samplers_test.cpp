// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "headrace/cache/order/mt19937.h"

#include "cache/order/golden.h"
#include "support/temp_dir.h"

using namespace headrace::cache;
using namespace headrace::test;

namespace {

void check_epochs(const std::string& spec, std::uint64_t n, const json& epochs) {
  CAPTURE(spec);
  CAPTURE(n);
  const auto order = order_of(spec, n);
  for (std::size_t epoch = 0; epoch < epochs.size(); ++epoch) {
    CAPTURE(epoch);
    const auto samples = order->epoch(epoch);
    REQUIRE(samples);
    CHECK(samples->size() == order->length(epoch));
    CHECK(matches(*samples, epochs[epoch]));
  }
}

std::string number(const json& entry, const char* name) {
  return entry.contains(name) ? std::to_string(entry[name].get<std::int64_t>()) : "0";
}

std::string loader_spec(const json& entry, const std::string& torch) {
  const std::string title = entry["case"];
  const bool is_explicit = title.starts_with("generator");
  const std::size_t at = title.find(is_explicit ? "seed " : "seed(") + 5;
  std::string spec =
      fmt::format("torch-random:torch={},generator={},seed={},batch={},workers={},persistent={},drop_last={}", torch,
                  is_explicit ? "explicit" : "default", std::stoi(title.substr(at)), number(entry, "batch_size"),
                  number(entry, "num_workers"), entry.value("persistent_workers", false) ? 1 : 0,
                  entry.value("drop_last", false) ? 1 : 0);
  if (!entry["stop_after_batches"].is_null()) spec += ",stop=" + number(entry, "stop_after_batches");
  return spec;
}

void check_random_sampler_of(const std::string& torch, const json& file) {
  const std::string common = "torch-random:loader=0,torch=" + torch;
  for (const json& entry : file["sampler_alone_default_generator"]) {
    check_epochs(common + ",seed=" + number(entry, "manual_seed"), entry["n"], entry["epochs"]);
  }
  for (const json& entry : file["sampler_alone_explicit_generator"]) {
    check_epochs(common + ",generator=explicit,seed=" + number(entry, "generator_seed"), entry["n"], entry["epochs"]);
  }
  for (const char* group : {"replacement", "num_samples_without_replacement"}) {
    for (const json& entry : file[group]) {
      check_epochs(fmt::format("{},generator=explicit,seed={},num_samples={},replacement={}", common,
                               number(entry, "generator_seed"), number(entry, "num_samples"),
                               group == std::string("replacement") ? 1 : 0),
                   entry["n"], entry["epochs"]);
    }
  }
  for (const json& entry : file["dataloader"]) check_epochs(loader_spec(entry, torch), entry["n"], entry["epochs"]);
  const json& draws = file["draw_order"];
  Mt19937 generator(draws["manual_seed"].get<std::uint32_t>());
  CHECK(draws["base_seed_of_first_iterator"] == draws["first_four_random_int64"][0]);
  for (const json& value : draws["first_four_random_int64"]) {
    CHECK((generator.next64_high_first() & INT64_MAX) == value);
  }
}

// The batches tell how far an epoch goes, and which worker loads them.
void check_batches(const json& file) {
  for (const json& entry : file["batch_sampler"]) {
    const auto order = order_of(fmt::format("torch-random:batch={},drop_last={}", number(entry, "batch"),
                                            entry["drop_last"].get<bool>() ? 1 : 0),
                                entry["n"]);
    CHECK(order->length(0) == entry["batches"].flatten().size());
  }
  for (const json& entry : file["workers"]) {
    const auto samples = epoch_of(
        fmt::format("torch-random:generator=explicit,seed=42,batch=4,workers={}", number(entry, "workers")), 50, 0);
    std::size_t position = 0;
    for (std::size_t b = 0; b < entry["batches"].size(); ++b) {
      const json& batch = entry["batches"][b];
      CHECK(batch["worker"] == b % entry["workers"].get<std::size_t>());
      for (const json& index : batch["indices"]) CHECK(samples[position++] == index);
    }
    CHECK(position == samples.size());
  }
}

}  // namespace

void headrace::test::check_random_sampler(const json& file) {
  check_random_sampler_of("2.6", file);
}

void headrace::test::check_random_sampler_of_torch_1_7(const json& file) {
  check_random_sampler_of("1.7", file);
}

void headrace::test::check_torch_misc(const json& file) {
  check_epochs("torch-subset:range=100:200:3,seed=42,loader=0", 1000, file["subset"]["epochs"]);
  for (std::size_t part = 0; part < 2; ++part) {
    CHECK(
        matches(epoch_of(fmt::format("torch-subset:split=900/100,part={},split_seed=42,of=sequential", part), 1000, 0),
                file["random_split"][part]));
  }
  check_batches(file);
  const TempDir dir;
  std::string weights;
  for (int i = 0; i < 1000; ++i) weights += fmt::format("{}\n", (i * 7919 % 97 + 1) / 8.0);
  const std::string path = dir.write("weights", weights).string();
  check_epochs("torch-weighted:generator=explicit,seed=42,num_samples=300,weights=" + path, 1000,
               file["weighted_with_replacement"]["epochs"]);
}

TEST_CASE("WeightedRandomSampler: what are no weights is named") {
  const TempDir dir;
  const auto refusal = [&](const char* lines) {
    return refusal_of("torch-weighted:weights=" + dir.write("weights", lines).string(), 3);
  };
  CHECK(refusal("1\n0\n2.5\n") == "");
  CHECK(refusal("1\n2\n").find("needs 3 weights") != std::string::npos);
  CHECK(refusal("1\n2\n3\n4\n").find("line 4: '4' is one number more") != std::string::npos);
  CHECK(refusal("1\nx\n3\n").find("line 2: 'x' is no number") != std::string::npos);
  CHECK(refusal("0\n0\n0\n").find("they are none") != std::string::npos);
  CHECK(refusal("1\n-1\n1\n").find("they are none") != std::string::npos);
  CHECK(refusal("1\nnan\n1\n").find("they are none") != std::string::npos);
  CHECK(refusal_of("torch-weighted").find("needs weights=PATH") != std::string::npos);
}

TEST_CASE("RandomSampler: offset and stride move along the default generator") {
  // Epoch e of the plain loader uses output 4e + 3 of the stream; so does an offset of 4e.
  const auto plain = order_of("torch-random:seed=9", 500);
  CHECK(*plain->epoch(3) == epoch_of("torch-random:seed=9,offset=12", 500, 0));
  CHECK(*plain->epoch(4) == epoch_of("torch-random:seed=9,stride=8", 500, 2));
}

TEST_CASE("RandomSampler: an epoch that would take minutes to reach is refused") {
  const auto order = order_of("torch-random:generator=explicit", 1'000'000);
  CHECK_FALSE(order->epoch(UINT64_MAX / 2));
  CHECK_FALSE(order->epoch(1'000'000));
}

TEST_CASE("torch-subset: another family reads the subset") {
  const auto inner = epoch_of("torch-distributed:seed=3,replicas=2,rank=1", 50, 2);
  const auto outer = epoch_of("torch-subset:range=100:200:2,of=torch-distributed:seed=3,replicas=2,rank=1", 400, 2);
  REQUIRE(outer.size() == inner.size());
  for (std::size_t i = 0; i < inner.size(); ++i) CHECK(outer[i] == 100 + 2 * inner[i]);
  const TempDir dir;
  const auto list = dir.write("list", "7\n5\n3\n");
  CHECK(epoch_of("torch-subset:list=" + list.string() + ",of=sequential", 10, 0) == std::vector<SampleIndex>{7, 5, 3});
}

TEST_CASE("first: each epoch of another order, as far as a loop reads it") {
  const auto order = order_of("first:samples=70,of=torch-distributed:seed=3,replicas=2,rank=1,batch=8,workers=3", 400);
  const auto whole = order_of("torch-distributed:seed=3,replicas=2,rank=1", 400);
  CHECK(order->length(0) == 70);
  CHECK(order->workers().workers == 3);
  for (const std::uint64_t epoch : {0, 5}) {
    CHECK(*order->epoch(epoch) == *whole->prefix(epoch, 70));
    CHECK(*order->prefix(epoch, 9) == *whole->prefix(epoch, 9));
    CHECK(*order->prefix(epoch, 900) == *whole->prefix(epoch, 70));
  }
  CHECK(epoch_of("first:samples=9,of=sequential", 4, 1) == std::vector<SampleIndex>{0, 1, 2, 3});
  CHECK(refusal_of("first:of=sequential").find("samples=COUNT") != std::string::npos);
  CHECK(refusal_of("first:samples=3").find("of=SPEC") != std::string::npos);
  CHECK(refusal_of("first:samples=0,of=sequential").find("samples='0'") != std::string::npos);
  CHECK(refusal_of("first:samples=3,of=no-such").find("no-such") != std::string::npos);
}

TEST_CASE("torch-subset: what is wrong is named") {
  CHECK(refusal_of("torch-subset").find("one of range=") != std::string::npos);
  CHECK(refusal_of("torch-subset:range=0:11").find("within the data set") != std::string::npos);
  CHECK(refusal_of("torch-subset:range=0:10:0").find("within the data set") != std::string::npos);
  CHECK(refusal_of("torch-subset:split=5/4").find("add up to 10") != std::string::npos);
  CHECK(refusal_of("torch-subset:range=0:5,of=torch-random:x=1").find("no parameter 'x'") != std::string::npos);
}

void headrace::test::check_repeated_augmentation(const json& file) {
  const std::pair<const char*, const char*> groups[] = {
      {"deit_RASampler", "variant=deit,repeats"},
      {"torchvision_references_RASampler", "variant=torchvision,repeats"},
      {"timm_RepeatAugSampler", "variant=timm,num_repeats"}};
  for (const auto& [group, variant] : groups) {
    for (const json& entry : file[group]) {
      const std::string spec =
          fmt::format("ra-sampler:{}={},replicas={},rank={}", variant, entry["num_repeats"].get<double>(),
                      number(entry, "replicas"), number(entry, "rank"));
      CAPTURE(spec);
      CHECK(matches(epoch_of(spec, entry["dataset"], entry["epoch"]), entry));
    }
  }
  for (const json& entry : file["timm_OrderedDistributedSampler"]) {
    CHECK(matches(epoch_of(fmt::format("torch-distributed:shuffle=0,replicas={},rank={}", number(entry, "replicas"),
                                       number(entry, "rank")),
                           entry["dataset"], 0),
                  entry));
  }
}

void headrace::test::check_infinite_samplers(const json& file) {
  for (const auto& [group, family] : {std::pair{"detectron2_TrainingSampler", "detectron2:"},
                                      std::pair{"mmengine_InfiniteSampler", "mmengine:sampler=infinite,"}}) {
    for (const json& entry : file[group]) {
      const std::string spec = fmt::format("{}seed={},replicas={},rank={}", family, number(entry, "seed"),
                                           number(entry, "replicas"), number(entry, "rank"));
      CAPTURE(spec);
      const auto order = order_of(spec, entry["dataset"]);
      std::vector<SampleIndex> stream;
      for (std::uint64_t epoch = 0; stream.size() < entry["taken"]; ++epoch) {
        const auto next = *order->epoch(epoch);
        CHECK(next.size() == order->length(epoch));
        stream.insert(stream.end(), next.begin(), next.end());
      }
      stream.resize(entry["taken"]);
      CHECK(matches(stream, entry));
    }
  }
  for (const json& entry : file["mmengine_DefaultSampler"]) {
    const std::string spec =
        fmt::format("mmengine:seed={},replicas={},rank={},round_up={}", number(entry, "seed"),
                    number(entry, "replicas"), number(entry, "rank"), entry["round_up"].get<bool>() ? 1 : 0);
    CAPTURE(spec);
    CHECK(matches(epoch_of(spec, entry["dataset"], entry["epoch"]), entry));
  }
}

// Drawn with torch 1.13: the generator goes on where the elements asked for have left it.
TEST_CASE("RandomSampler draws a permutation or a chunk when its first element is asked for") {
  struct Case {
    const char* options;
    std::vector<SampleIndex> epoch_1;
  };
  const std::string common = "torch-random:seed=42,generator=explicit,batch=10,";
  for (const Case& drawn :
       {Case{"num_samples=50,stop=2", {75, 77, 85, 39, 71}}, Case{"num_samples=250,stop=15", {94, 96, 15, 44, 67}},
        Case{"num_samples=250,stop=25", {72, 18, 41, 92, 24}},
        Case{"num_samples=90,stop=2,replacement=1", {39, 76, 32, 10, 86}}}) {
    CAPTURE(drawn.options);
    std::vector<SampleIndex> samples = epoch_of(common + drawn.options, 100, 1);
    samples.resize(drawn.epoch_1.size());
    CHECK(samples == drawn.epoch_1);
  }
}

TEST_CASE("Hugging Face Trainer: ranks take whole batches in turn, the last round is filled from the front") {
  const auto list = epoch_of("torch-distributed:seed=42", 50, 1);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    // 7 batches of 8 (the last has 2) become 8 full ones: 4 for each rank.
    const auto samples = epoch_of(fmt::format("hf-trainer:replicas=2,rank={},batch=8", rank), 50, 1);
    REQUIRE(samples.size() == 32);
    for (std::size_t i = 0; i < samples.size(); ++i) CHECK(samples[i] == list[((i / 8 * 2 + rank) * 8 + i % 8) % 50]);
  }
  CHECK(epoch_of("hf-trainer:batch=8", 50, 1) == list);
  CHECK(epoch_of("hf-trainer:replicas=2,rank=0,batch=8,drop_last=1", 50, 1).size() == 24);
  CHECK(epoch_of("hf-trainer:replicas=2,rank=1,batch=8,even_batches=0", 50, 1).size() == 24);
  CHECK(epoch_of("hf-trainer:replicas=2,rank=0,batch=8,even_batches=0", 50, 1).size() == 26);
}

TEST_CASE("Lightning injects the DistributedSampler") {
  CHECK(epoch_of("lightning:seed=7,replicas=2,rank=1", 33, 4) ==
        epoch_of("torch-distributed:seed=7,replicas=2,rank=1", 33, 4));
}
