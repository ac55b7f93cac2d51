// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order.h"

#include <algorithm>
#include <string>

#include "headrace/cache/order/families.h"
#include "headrace/cache/order_families.h"

namespace headrace::cache {
namespace {

struct Family {
  std::string_view name;
  OrderResult (*make)(Parameters& parameters, const OrderInput& input);
  std::string_view drawn_by;
  std::string_view example;
};

constexpr Family kFamilies[] = {
    {"sequential", make_sequential, "loaders without shuffling", "sequential:replicas=2"},
    {"torch-distributed", make_torch_distributed, "DistributedSampler", "torch-distributed:seed=0,replicas=8,rank=3"},
    {"torch-random", make_torch_random, "RandomSampler, DataLoader(shuffle=True)",
     "torch-random:generator=explicit,seed=42"},
    {"torch-subset", make_torch_subset, "SubsetRandomSampler, or another order over a part (of=SPEC, last)",
     "torch-subset:range=0:500,seed=1"},
    {"ra-sampler", make_ra_sampler, "repeated augmentation", "ra-sampler:variant=torchvision,replicas=8"},
    {"hf-trainer", make_hf_trainer, "Hugging Face Trainer, accelerate", "hf-trainer:seed=42,replicas=8,batch=32"},
    // injects DistributedSampler with seed = PL_GLOBAL_SEED or 0
    {"lightning", make_torch_distributed, "Lightning", "lightning:seed=1234,replicas=8"},
    {"detectron2", make_detectron2, "detectron2's TrainingSampler", "detectron2:replicas=8"},
    {"mmengine", make_mmengine, "mmengine's DefaultSampler and InfiniteSampler", "mmengine:sampler=infinite,seed=7"},
    {"numpy", make_numpy, "numpy's permutation and shuffle", "numpy:seed=42,epochs=seed+epoch"},
    {"python", make_python, "random.shuffle, random.sample", "python:seed=0,cumulative=1"},
    {"dali", make_dali, "DALI's fn.readers.file", "dali:mode=random_shuffle,libstdcxx=11"},
    {"ffcv", make_ffcv, "FFCV's OrderOption.RANDOM", "ffcv:seed=0"},
    {"dlio", make_dlio, "DLIO, MLPerf Storage", "dlio:seed=123"},
    {"keras", make_keras, "image_dataset_from_directory", "keras:seed=123,validation_split=0.2"},
    {"grain", make_grain, "Grain's shuffle", "grain:seed=0,replicas=8"},
    {"streaming", make_streaming, "MosaicML's StreamingDataset", "streaming:shard_sizes=/tmp/sizes,algorithm=py1e"},
    {"litdata", make_litdata, "LitData's StreamingDataset", "litdata:chunk_sizes=/tmp/sizes,workers=4"},
    {"webdataset", make_webdataset, "WebDataset with a seed, its shards", "webdataset:seed=1,workers=4"},
    {"megatron", make_megatron, "Megatron-Core's GPTDataset, its saved indices",
     "megatron:documents=/tmp/document_index.npy,samples=/tmp/sample_index.npy,shuffle=/tmp/shuffle_index.npy"},
    {"torch-weighted", make_torch_weighted, "WeightedRandomSampler", "torch-weighted:weights=/tmp/weights,seed=1"},
    {"first", make_first, "limit_train_batches, steps_per_epoch: the first samples of each epoch (of=SPEC, last)",
     "first:samples=500,of=torch-distributed:seed=0"},
    {"file", make_file_order, "a list: one path or index per line", "file:/tmp/order"},
    {"recorded", make_recorded, "epochs that --order auto kept", "recorded:/var/cache/orders"},
};

[[nodiscard]] tl::unexpected<io::Error> unknown_family(std::string_view name) {
  std::string known;
  for (const Family& family : kFamilies) known.append(known.empty() ? "" : ", ").append(family.name);
  constexpr std::size_t kShown = 80;
  return io::make_error(io::ErrorCode::kInvalidArgument,
                        "no order family '" + std::string(name.substr(0, kShown)) + "'; known: " + known);
}

}  // namespace

// A maker asks for every parameter that it knows, whatever becomes of the order.
std::vector<OrderFamily> order_families() {
  constexpr std::uint64_t kSamples = 1000;  // the examples fit
  std::vector<OrderFamily> families;
  for (const Family& family : kFamilies) {
    Parameters parameters(family.example);
    static_cast<void>(family.make(parameters, {.sample_count = kSamples, .find_sample = nullptr}));
    families.push_back({family.name, family.drawn_by, family.example, parameters.known()});
  }
  return families;
}

Result<std::vector<SampleIndex>> Order::prefix(std::uint64_t epoch_number, std::uint64_t count) const {
  Result<std::vector<SampleIndex>> whole = epoch(epoch_number);
  if (whole) whole->resize(std::min<std::uint64_t>(whole->size(), count));
  return whole;
}

Result<std::unique_ptr<Order>> make_order(std::string_view spec, const OrderInput& input) {
  constexpr std::uint64_t kMostSamples = std::uint64_t{1} << 32;
  if (input.sample_count > kMostSamples) {
    return io::make_error(io::ErrorCode::kInvalidArgument, "an order has at most 2^32 samples");
  }
  constexpr std::size_t kMostCharacters = 4096;  // a path and a few dozen parameters; bounds the nesting of of=
  if (spec.size() > kMostCharacters) {
    return io::make_error(io::ErrorCode::kInvalidArgument, "an order spec has at most 4096 characters");
  }
  Parameters parameters(spec);
  const auto* family = std::ranges::find(kFamilies, parameters.family(), &Family::name);
  if (family == std::end(kFamilies)) return unknown_family(parameters.family());
  return family->make(parameters, input);
}

}  // namespace headrace::cache
