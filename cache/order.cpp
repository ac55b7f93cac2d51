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
    {"file", make_file_order},
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
  Parameters parameters(spec);
  const auto* family = std::ranges::find(kFamilies, parameters.family(), &Family::name);
  if (family == std::end(kFamilies)) return unknown_family(parameters.family());
  return family->make(parameters, input);
}

}  // namespace headrace::cache
