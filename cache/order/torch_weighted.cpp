// SPDX-License-Identifier: Apache-2.0
// torch-weighted: WeightedRandomSampler with replacement (torch/utils/data/sampler.py), which is torch.multinomial on
// the CPU (aten/src/ATen/native/cpu/MultinomialKernel.cpp) of weights as doubles. Each sample takes 53 bits of a 64-bit
// draw and looks them up in the running sum of the weights. Without a generator the draws come from the default one
// directly, after the base_seed that iter(loader) draws.
#include <algorithm>
#include <memory>

#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"
#include "headrace/cache/order/torch_parameters.h"

namespace headrace::cache {
namespace {

constexpr std::uint64_t kOutputsPerDraw = 2;

// Of the total; the last one is 1 whatever rounding made of it.
[[nodiscard]] std::vector<double> running_shares(std::vector<double> weights) {
  double sum = 0;
  for (double& weight : weights) weight = sum += weight;
  for (double& share : weights) share /= sum;
  weights.back() = 1;
  return weights;
}

[[nodiscard]] SampleIndex draw_one(Mt19937& generator, const std::vector<double>& shares) {
  constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 53) - 1;
  const double uniform = static_cast<double>(generator.next64_high_first() & kMantissa) * 0x1p-53;
  return static_cast<SampleIndex>(std::ranges::lower_bound(shares, uniform) - shares.begin());
}

[[nodiscard]] io::Status check_weights(const std::vector<double>& weights, const std::string& path, std::uint64_t n) {
  const bool has_one = std::ranges::any_of(weights, [](double weight) { return weight > 0; });
  const bool are_weights = std::ranges::all_of(weights, [](double weight) { return weight >= 0 && weight < 1e300; });
  if (weights.size() == n && has_one && are_weights) return {};
  const std::string found = weights.size() == n ? "they are none" : "it has " + std::to_string(weights.size());
  return io::make_error(io::ErrorCode::kInvalidArgument, "order 'torch-weighted': " + path + " needs " +
                                                             std::to_string(n) +
                                                             " weights that are not negative, one per line; " + found);
}

}  // namespace

OrderResult make_torch_weighted(Parameters& parameters, const OrderInput& input) {
  const std::optional<std::string> path = parameters.text("weights");
  if (!path) parameters.fail("needs weights=PATH: one per line and sample");
  const std::uint32_t seed = parameters.seed("seed", 0).low32();
  const bool is_explicit = parameters.choice("generator", {"default", "explicit"}) == 1;
  const std::uint64_t length =
      parameters.integer("num_samples", input.sample_count, {.least = 2, .most = std::uint64_t{1} << 32});
  const std::uint64_t base_seed = parameters.flag("loader", !is_explicit) ? kOutputsPerDraw : 0;
  const std::uint64_t offset = parameters.integer("offset", 0);
  const std::uint64_t stride = parameters.integer("stride", base_seed + kOutputsPerDraw * length);
  const bool drop_last = parameters.flag("drop_last", false);
  const WorkerLayout workers = read_worker_layout(parameters);
  if (io::Status good = parameters.finish(); !good) return io::forward_error(std::move(good));
  Result<std::vector<double>> weights = read_number_file(*path, input);
  if (!weights) return io::forward_error(std::move(weights));
  if (io::Status good = check_weights(*weights, *path, input.sample_count); !good)
    return io::forward_error(std::move(good));

  const auto shares = std::make_shared<const std::vector<double>>(running_shares(std::move(*weights)));
  const auto draw = [=](std::uint64_t epoch, std::uint64_t count) -> Result<Samples> {
    Mt19937 generator(seed);
    if (Status good = skip(generator, epoch, stride, offset + base_seed); !good)
      return io::forward_error(std::move(good));
    Samples samples(count);
    for (SampleIndex& sample : samples) sample = draw_one(generator, *shares);
    return samples;
  };
  const std::uint64_t total = drop_last ? length / workers.batch * workers.batch : length;
  return make_sharded_order(parameters.spec(),
                            {.list_length = length, .draw = draw, .shards = {.total = total}, .workers = workers});
}

}  // namespace headrace::cache
