// SPDX-License-Identifier: Apache-2.0
// torch-subset: a part of the data set, chosen by range, by random_split or by a list; read by SubsetRandomSampler
// (torch/utils/data/sampler.py), which draws its permutation from the generator directly, or as another family reads a
// data set of that size (of=SPEC).
#include <algorithm>
#include <charconv>
#include <memory>

#include "headrace/cache/order/families.h"
#include "headrace/cache/order/mapped_order.h"
#include "headrace/cache/order/sharded_order.h"
#include "headrace/cache/order/torch_parameters.h"
#include "headrace/cache/order/torch_randperm.h"

namespace headrace::cache {
namespace {

// Numbers separated by `separator`; empty when one is not a number.
[[nodiscard]] std::vector<std::uint64_t> parse_list(std::string_view text, char separator) {
  std::vector<std::uint64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    const auto [stop, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc{}) return {};
    if (stop == end) return numbers;
    if (*stop != separator) return {};
    at = stop + 1;
  }
}

// range=START:STOP[:STEP], as Python's range.
[[nodiscard]] Samples indices_of_range(Parameters& parameters, const std::string& text, std::uint64_t n) {
  std::vector<std::uint64_t> range = parse_list(text, ':');
  if (range.size() == 2) range.push_back(1);
  if (range.size() != 3 || range[2] == 0 || range[1] > n) {
    parameters.fail("range='" + text + "' is not allowed: START:STOP[:STEP] within the data set");
    return {};
  }
  Samples indices;
  const std::uint64_t step = std::min(range[2], n);  // a longer one ends the loop, too, and cannot wrap around
  for (std::uint64_t i = range[0]; i < range[1]; i += step) indices.push_back(static_cast<SampleIndex>(i));
  return indices;
}

// split=LENGTH/LENGTH/...: random_split draws one permutation and cuts it in consecutive pieces.
[[nodiscard]] Samples indices_of_split(Parameters& parameters, const std::string& text, std::uint64_t n) {
  const std::vector<std::uint64_t> lengths = parse_list(text, '/');
  const Seed seed = parameters.seed("split_seed", 0);
  const std::uint64_t part = parameters.integer("part", 0);
  std::uint64_t first = 0;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (i < part) first += lengths[i];
    sum += std::min(lengths[i], n + 1);  // so that the sum cannot wrap around to n
  }
  if (part >= lengths.size() || sum != n) {
    parameters.fail("split='" + text + "' is not allowed: LENGTH/LENGTH/..., which add up to " + std::to_string(n) +
                    ", and part= one of them");
    return {};
  }
  Mt19937 generator(seed.low32());
  Samples indices = torch_randperm(generator, n, first + lengths[part]);
  indices.erase(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(first));
  return indices;
}

[[nodiscard]] Result<Samples> read_indices(Parameters& parameters, const OrderInput& input) {
  const std::optional<std::string> range = parameters.text("range");
  const std::optional<std::string> split = parameters.text("split");
  const std::optional<std::string> list = parameters.text("list");
  if (int{range.has_value()} + int{split.has_value()} + int{list.has_value()} != 1) {
    parameters.fail("one of range=START:STOP[:STEP], split=LENGTH/LENGTH/... and list=PATH is needed");
    return Samples{};
  }
  if (range) return indices_of_range(parameters, *range, input.sample_count);
  if (split) return indices_of_split(parameters, *split, input.sample_count);
  return read_order_file(*list, input);
}

// SubsetRandomSampler has no seed of its own: epochs follow each other on one generator.
[[nodiscard]] DrawList subset_random_sampler(Parameters& parameters, const Indices& indices) {
  const std::uint32_t seed = parameters.seed("seed", 0).low32();
  const bool loader = parameters.flag("loader", true);  // iter(loader) draws 2 outputs first
  const std::uint64_t offset = parameters.integer("offset", 0);
  const TorchVersion version = read_torch_version(parameters);
  const std::uint64_t n = indices->size();
  const std::uint64_t base = loader ? 2 : 0;
  const std::uint64_t stride = parameters.integer("stride", base + randperm_outputs(n, version));
  return [=](std::uint64_t epoch, std::uint64_t count) -> Result<Samples> {
    Mt19937 generator(seed);
    HEADRACE_TRY_DO(skip(generator, epoch, stride, offset + base));
    Samples order = torch_randperm(generator, n, count, version);
    for (SampleIndex& sample : order) sample = (*indices)[sample];
    return order;
  };
}

}  // namespace

OrderResult make_torch_subset(Parameters& parameters, const OrderInput& input) {
  Result<Samples> read = read_indices(parameters, input);
  if (!read) return io::forward_error(std::move(read));
  const auto indices = std::make_shared<const Samples>(std::move(*read));
  if (const std::optional<std::string> inner_spec = parameters.text("of")) {
    HEADRACE_TRY_DO(parameters.finish());
    OrderResult inner = make_order(*inner_spec, {.sample_count = indices->size(), .find_sample = nullptr});
    if (!inner) return inner;
    return std::make_unique<MappedOrder>(parameters.spec(), indices, std::move(*inner));
  }
  const DrawList draw = subset_random_sampler(parameters, indices);
  const bool drop_last = parameters.flag("drop_last", false);
  const WorkerLayout workers = read_worker_layout(parameters);
  HEADRACE_TRY_DO(parameters.finish());
  const std::uint64_t n = indices->size();
  const std::uint64_t total = drop_last ? n / workers.batch * workers.batch : n;
  return make_sharded_order(parameters.spec(),
                            {.list_length = n, .draw = draw, .shards = {.total = total}, .workers = workers});
}

}  // namespace headrace::cache
