// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order.h"

#include <algorithm>
#include <string>

#include "headrace/cache/order/families.h"

namespace headrace::cache {
namespace {

struct Family {
  std::string_view name;
  OrderResult (*make)(Parameters& parameters, const OrderInput& input);
};

constexpr Family kFamilies[] = {
    {"sequential", make_sequential},
    {"torch-distributed", make_torch_distributed},
    {"torch-random", make_torch_random},
    {"torch-subset", make_torch_subset},
    {"ra-sampler", make_ra_sampler},
    {"hf-trainer", make_hf_trainer},
    {"lightning", make_torch_distributed},  // injects DistributedSampler with seed = PL_GLOBAL_SEED or 0
    {"detectron2", make_detectron2},
    {"mmengine", make_mmengine},
    {"numpy", make_numpy},
    {"python", make_python},
    {"dali", make_dali},
    {"ffcv", make_ffcv},
    {"dlio", make_dlio},
    {"keras", make_keras},
    {"file", make_file_order},
    {"recorded", make_recorded},
};

[[nodiscard]] tl::unexpected<io::Error> unknown_family(std::string_view name) {
  std::string known;
  for (const Family& family : kFamilies) known.append(known.empty() ? "" : ", ").append(family.name);
  constexpr std::size_t kShown = 80;
  return io::make_error(io::ErrorCode::kInvalidArgument,
                        "no order family '" + std::string(name.substr(0, kShown)) + "'; known: " + known);
}

}  // namespace

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
