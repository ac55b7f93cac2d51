// SPDX-License-Identifier: Apache-2.0
// ffcv: OrderOption.RANDOM (ffcv/traversal_order/random.py): numpy, or DistributedSampler where distributed.
//
// OrderOption.QUASI_RANDOM (quasi_random.py) goes by the pages of its one .beton file: the samples of each page are
// shuffled, the pages are shuffled, and each sample comes from one of the next 2 * batch pages that are not used up.
// It runs under numba, whose `random` draws as CPython's does and whose `np.random` as RandomState, both seeded with
// the low 32 bits of seed * 912300 + epoch.
#include <numeric>

#include "headrace/cache/order/families.h"
#include "headrace/cache/order/pcg64.h"
#include "headrace/cache/order/reshuffling.h"

namespace headrace::cache {
namespace {

struct Pages {
  std::vector<std::uint32_t> sizes;  // samples of page 0, page 1, ...; 0 for those that hold none
  Samples samples;                   // one page after the other, as the loader lists them
};

// The pages that samples are drawn from, each with its samples that are left.
class OpenPages {
 public:
  void add(std::span<const SampleIndex> page) {
    if (!page.empty()) pages_.push_back(page);
  }
  [[nodiscard]] std::size_t count() const { return pages_.size(); }
  [[nodiscard]] SampleIndex draw(Mt19937& generator) {
    const auto last = static_cast<std::uint32_t>(pages_.size() - 1);
    const std::uint32_t chosen = last == 0 ? 0 : numpy_below_or_at(generator, last);
    std::span<const SampleIndex>& page = pages_[chosen];
    const SampleIndex sample = page.front();
    page = page.subspan(1);
    if (page.empty()) pages_.erase(pages_.begin() + chosen);
    return sample;
  }

 private:
  std::vector<std::span<const SampleIndex>> pages_;
};

[[nodiscard]] Samples quasi_random_list(const Pages& pages, std::uint32_t seed, std::uint64_t open_pages) {
  Samples samples = pages.samples;
  Mt19937 within_pages(seed);
  std::vector<std::span<SampleIndex>> contents;
  std::size_t begin = 0;
  for (const std::uint32_t size : pages.sizes) {
    contents.push_back(std::span(samples).subspan(begin, size));
    python_shuffle(within_pages, contents.back());
    begin += size;
  }
  Mt19937 among_pages(seed);
  Samples page_order = first_indices(contents.size());
  numpy_shuffle(among_pages, page_order);
  Samples list(samples.size());
  OpenPages open;
  std::size_t next_page = 0;
  for (SampleIndex& sample : list) {
    while (next_page < page_order.size() && open.count() < open_pages) open.add(contents[page_order[next_page++]]);
    sample = open.draw(among_pages);
  }
  return list;
}

[[nodiscard]] Result<Pages> read_pages(const std::string& sizes_path, const std::optional<std::string>& samples_path,
                                       const OrderInput& input) {
  OrderInput any_number{.sample_count = std::uint64_t{1} << 32, .find_sample = nullptr};
  any_number.regular_files_only = input.regular_files_only;
  Result<Samples> sizes = read_order_file(sizes_path, any_number);
  if (!sizes) return io::forward_error(std::move(sizes));
  Pages pages{.sizes = std::move(*sizes), .samples = {}};
  const std::uint64_t sum = std::accumulate(pages.sizes.begin(), pages.sizes.end(), std::uint64_t{0});
  if (!samples_path && sum == input.sample_count) {
    pages.samples = first_indices(sum);
  } else if (samples_path) {
    Result<Samples> samples = read_order_file(*samples_path, input);
    if (!samples) return io::forward_error(std::move(samples));
    pages.samples = std::move(*samples);
  }
  if (pages.samples.size() == sum) return pages;
  return io::make_error(io::ErrorCode::kInvalidArgument,
                        "order 'ffcv': the pages of " + sizes_path + " hold " + std::to_string(sum) +
                            " samples together; " +
                            (samples_path ? *samples_path + " lists " + std::to_string(pages.samples.size())
                                          : "the data set has " + std::to_string(input.sample_count)));
}

[[nodiscard]] OrderResult make_quasi_random(Parameters& parameters, const OrderInput& input,
                                            const std::optional<std::string>& sizes_path,
                                            const std::optional<std::string>& samples_path) {
  const std::uint64_t seed = parameters.seed("seed", 0).low64();
  const WorkerLayout workers = read_worker_layout(parameters);
  if (!sizes_path)
    parameters.fail("order=quasi_random needs page_sizes=PATH: how many samples each page holds, one per line");
  HEADRACE_TRY_DO(parameters.finish());
  Result<Pages> read = read_pages(*sizes_path, samples_path, input);
  if (!read) return io::forward_error(std::move(read));
  const auto pages = std::make_shared<const Pages>(std::move(*read));
  const auto draw = [=](std::uint64_t epoch, std::uint64_t count) -> Result<Samples> {
    const auto epoch_seed = static_cast<std::uint32_t>(seed * 912'300 + epoch);
    Samples list = quasi_random_list(*pages, epoch_seed, 2 * std::uint64_t{workers.batch});
    list.resize(count);
    return list;
  };
  const std::uint64_t length = pages->samples.size();
  return make_sharded_order(parameters.spec(),
                            {.list_length = length, .draw = draw, .shards = {.total = length}, .workers = workers});
}

[[nodiscard]] OrderResult make_random(Parameters& parameters, const OrderInput& input) {
  const Seed seed = parameters.seed("seed", 0);
  if (seed.negative()) parameters.fail("numpy's seeds are not negative");
  const Reshuffling run{.n = input.sample_count, .epoch_seed = EpochSeed::kSeedPlusEpoch};
  return whole_list_order(parameters, run.n, [=](std::uint64_t epoch) {
    return run.order(
        epoch, [&](std::uint64_t e) { return Pcg64(seed.plus(e)); }, kNumpyShuffle);
  });
}

}  // namespace

OrderResult make_ffcv(Parameters& parameters, const OrderInput& input) {
  const bool quasi_random = parameters.choice("order", {"random", "quasi_random"}) == 1;
  const std::optional<std::string> sizes_path = parameters.text("page_sizes");
  const std::optional<std::string> samples_path = parameters.text("page_samples");
  const bool distributed = parameters.flag("distributed", false);
  if (!quasi_random && (sizes_path || samples_path)) parameters.fail("pages go with order=quasi_random");
  if (quasi_random && distributed) parameters.fail("order=quasi_random goes without distributed=1");
  if (quasi_random) return make_quasi_random(parameters, input, sizes_path, samples_path);
  return distributed ? make_torch_distributed(parameters, input) : make_random(parameters, input);
}

}  // namespace headrace::cache
