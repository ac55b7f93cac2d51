// SPDX-License-Identifier: Apache-2.0
// streaming: MosaicML's StreamingDataset (streaming/base/shuffle, streaming/base/partition/orig.py).
//
// A run-long generator shuffles the shards, which are then cut at the borders of canonical nodes. A generator of the
// epoch shuffles the shards of each canonical node, and samples within shards (py1s, py2s), blocks (py1b, py1br) or
// ranges around their shard (py1e). The canonical nodes are read side by side.
//
// Where the data set has as many samples as there are shards, its files are the shards: then the order is that in which
// an epoch touches them first.
#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "headrace/cache/order/families.h"
#include "headrace/cache/order/pcg64.h"
#include "headrace/cache/order/sharded_order.h"
#include "headrace/cache/order/shuffles.h"

namespace headrace::cache {
namespace {

struct Span {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  [[nodiscard]] std::uint64_t size() const { return end - begin; }
};
using Spans = std::vector<Span>;

enum class Algorithm : std::uint8_t { kPy1e, kPy1br, kPy1b, kPy1s, kPy2s, kNaive };

struct Streaming {
  Algorithm algorithm = Algorithm::kPy1e;
  Seed seed;
  std::uint64_t canonical_nodes = 1;
  std::uint64_t block_size = 0;
  std::vector<std::uint32_t> shard_sizes;
  std::uint64_t sample_count = 0;
};

template <typename List>
void shuffle_part(Pcg64& engine, List&& list) {
  for (std::size_t i = list.size(); i-- > 1;) {
    std::swap(list[i], list[numpy_below_or_at(engine, static_cast<std::uint32_t>(i))]);
  }
}

// Generator.integers(low, high): Lemire's rejection.
[[nodiscard]] std::uint64_t numpy_integer(Pcg64& engine, std::uint64_t low, std::uint64_t high) {
  const auto range = static_cast<std::uint32_t>(high - low);
  if (range <= 1) return low;
  std::uint64_t product = std::uint64_t{engine.next32()} * range;
  if (static_cast<std::uint32_t>(product) < range) {
    const std::uint32_t threshold = (0 - range) % range;
    while (static_cast<std::uint32_t>(product) < threshold) product = std::uint64_t{engine.next32()} * range;
  }
  return low + (product >> 32);
}

[[nodiscard]] double numpy_uniform(Pcg64& engine, double low, double high) {
  return low + (high - low) * (static_cast<double>(engine.next64() >> 11) * 0x1p-53);
}

[[nodiscard]] Spans spans_of(const Streaming& run) {
  Spans spans;
  std::uint64_t begin = 0;
  for (const std::uint32_t size : run.shard_sizes) {
    spans.push_back({begin, begin + size});
    begin += size;
  }
  return spans;
}

// Of each canonical node; a shard on a border is cut. `ids` are positions in the run's sequence of shards.
[[nodiscard]] std::vector<Spans> divide(Spans spans, const Streaming& run) {
  std::vector<Spans> nodes(run.canonical_nodes);
  std::size_t next = 0;
  std::uint64_t done = 0;
  for (std::uint64_t node = 0; node < run.canonical_nodes; ++node) {
    const std::uint64_t node_end = run.sample_count * (node + 1) / run.canonical_nodes;
    while (next < spans.size() && done + spans[next].size() <= node_end) {
      done += spans[next].size();
      nodes[node].push_back(spans[next++]);
    }
    if (next == spans.size() || done >= node_end) continue;
    const std::uint64_t cut = spans[next].begin + (node_end - done);
    nodes[node].push_back({spans[next].begin, cut});
    spans[next].begin = cut;
    done = node_end;
  }
  return nodes;
}

[[nodiscard]] Samples samples_of(const Spans& spans) {
  Samples samples;
  for (const Span& span : spans) {
    for (std::uint64_t id = span.begin; id < span.end; ++id) samples.push_back(static_cast<SampleIndex>(id));
  }
  return samples;
}

void shuffle_each(Pcg64& engine, Samples& samples, const Spans& spans) {
  std::size_t begin = 0;
  for (const Span& span : spans) {
    shuffle_part(engine, std::span(samples).subspan(begin, span.size()));
    begin += span.size();
  }
}

// Blocks of three to five quarters of the size, the first of which begins before the node does.
void shuffle_random_blocks(Pcg64& engine, Samples& samples, std::uint64_t stagger, std::uint64_t block_size) {
  std::vector<Span> blocks;
  for (std::uint64_t at = 0; at < samples.size();) {
    const std::uint64_t size = numpy_integer(engine, block_size * 3 / 4, block_size * 5 / 4);
    const std::uint64_t begin = at - std::min(at, stagger);
    const std::uint64_t end = std::min<std::uint64_t>(at + size - std::min(at + size, stagger), samples.size());
    blocks.push_back({begin, end});
    at += end - begin;
  }
  for (const Span& block : blocks) shuffle_part(engine, std::span(samples).subspan(block.begin, block.size()));
}

// Each sample moves away from its place, within a range of about a block around its shard.
[[nodiscard]] Samples spread_out(Pcg64& engine, const Samples& samples, const Spans& spans, std::uint64_t block_size) {
  std::vector<double> places(samples.size());
  std::iota(places.begin(), places.end(), 0.0);
  std::size_t begin = 0;
  for (const Span& span : spans) {
    const auto range = static_cast<double>(numpy_integer(engine, block_size * 3 / 4, block_size * 5 / 4));
    const double furthest = std::max(0.0, (range - static_cast<double>(span.size())) / 2);
    const double low = std::max(-furthest, -static_cast<double>(begin));
    const double high = std::min(furthest, static_cast<double>(samples.size() - begin - span.size()));
    for (std::size_t i = 0; i < span.size(); ++i) places[begin + i] += numpy_uniform(engine, low, high);
    begin += span.size();
  }
  Samples by_place = first_indices(samples.size());
  std::ranges::stable_sort(by_place, {}, [&](SampleIndex i) { return places[i]; });
  for (SampleIndex& sample : by_place) sample = samples[sample];
  return by_place;
}

// py2s shuffles the samples of whole shards before these are cut.
[[nodiscard]] Samples shuffled_twice(const Streaming& run, std::uint64_t epoch) {
  Pcg64 fixed(run.seed);
  Spans shards = spans_of(run);
  shuffle_part(fixed, shards);
  Samples scattered = samples_of(shards);
  shuffle_each(fixed, scattered, shards);
  std::uint64_t begin = 0;
  for (Span& shard : shards) {  // from now on by place
    shard = {begin, begin + shard.size()};
    begin = shard.end;
  }
  Pcg64 engine(run.seed.plus(epoch));
  Samples samples;
  for (Spans& node : divide(shards, run)) {
    shuffle_part(engine, node);
    Samples part = samples_of(node);
    for (SampleIndex& sample : part) sample = scattered[sample];
    shuffle_each(engine, part, node);
    samples.insert(samples.end(), part.begin(), part.end());
  }
  return samples;
}

// The samples of all canonical nodes, one node after the other.
[[nodiscard]] Samples shuffled(const Streaming& run, std::uint64_t epoch) {
  if (run.algorithm == Algorithm::kPy2s) return shuffled_twice(run, epoch);
  Pcg64 engine(run.seed.plus(epoch));
  if (run.algorithm == Algorithm::kNaive) {
    Samples samples = first_indices(run.sample_count);
    numpy_shuffle(engine, samples);
    return samples;
  }
  Spans shards = spans_of(run);
  Pcg64 fixed(run.seed);
  shuffle_part(fixed, shards);
  std::vector<Spans> nodes = divide(std::move(shards), run);
  for (Spans& node : nodes) shuffle_part(engine, node);
  std::vector<std::uint64_t> stagger;
  if (run.algorithm == Algorithm::kPy1br) {
    for (std::size_t node = 0; node < nodes.size(); ++node)
      stagger.push_back(numpy_integer(engine, 0, run.block_size * 3 / 4));
  }
  Samples samples;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    Samples part = samples_of(nodes[node]);
    if (run.algorithm == Algorithm::kPy1br) {
      shuffle_random_blocks(engine, part, stagger[node], run.block_size);
    } else if (run.algorithm == Algorithm::kPy1b) {
      for (std::size_t begin = 0; begin < part.size(); begin += run.block_size)
        shuffle_part(engine, std::span(part).subspan(begin, std::min(run.block_size, part.size() - begin)));
    } else {
      shuffle_each(engine, part, nodes[node]);
      if (run.algorithm == Algorithm::kPy1e) part = spread_out(engine, part, nodes[node], run.block_size);
    }
    samples.insert(samples.end(), part.begin(), part.end());
  }
  return samples;
}

// One sample of each canonical node in turn. A node that has one fewer than the others repeats its last.
[[nodiscard]] Samples side_by_side(const Streaming& run, const Samples& shuffled) {
  const std::uint64_t nodes = run.canonical_nodes;
  const std::uint64_t rounds = ceil_div(run.sample_count, nodes);
  Samples samples;
  samples.reserve(rounds * nodes);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (std::uint64_t node = 0; node < nodes; ++node) {
      const std::uint64_t begin = node * run.sample_count / nodes;
      const std::uint64_t end = (node + 1) * run.sample_count / nodes;
      samples.push_back(shuffled[std::min(begin + round, end - 1)]);
    }
  }
  return samples;
}

// To a multiple of `ranks`, with samples of the rounds before the last.
void pad(Samples& samples, std::uint64_t ranks) {
  if (samples.size() % ranks == 0) return;
  const std::uint64_t missing = ranks - samples.size() % ranks;
  const std::uint64_t size = samples.size();
  const bool has_enough = ranks + missing - 1 <= size;
  for (std::uint64_t i = 0; i < missing; ++i)
    samples.push_back(samples[has_enough ? size + 1 - ranks - missing + i : i % size]);
}

// The shards as they are touched first.
[[nodiscard]] Samples shards_of(const Streaming& run, const Samples& samples) {
  std::vector<SampleIndex> shard_of(run.sample_count);
  std::size_t at = 0;
  for (std::size_t shard = 0; shard < run.shard_sizes.size(); ++shard) {
    for (std::uint32_t i = 0; i < run.shard_sizes[shard]; ++i) shard_of[at++] = static_cast<SampleIndex>(shard);
  }
  std::vector<bool> touched(run.shard_sizes.size(), false);
  Samples shards;
  for (const SampleIndex sample : samples) {
    if (touched[shard_of[sample]]) continue;
    touched[shard_of[sample]] = true;
    shards.push_back(shard_of[sample]);
  }
  return shards;
}

[[nodiscard]] io::Status check_sizes(const Streaming& run, const std::string& path, std::uint64_t n) {
  const bool are_shards = run.shard_sizes.size() == n;
  const bool fits =
      (are_shards || run.sample_count == n) && run.sample_count <= UINT32_MAX && run.canonical_nodes < run.sample_count;
  if (fits) return {};
  return io::make_error(io::ErrorCode::kInvalidArgument,
                        "order 'streaming': " + path + " lists " + std::to_string(run.shard_sizes.size()) +
                            " shards of " + std::to_string(run.sample_count) + " samples together; the data set has " +
                            std::to_string(n) + ", which are shards or samples, and needs more samples than nodes");
}

[[nodiscard]] OrderResult read_shard_sizes(Streaming& run, const std::string& path, const OrderInput& input) {
  OrderInput any_number{.sample_count = std::uint64_t{1} << 32, .find_sample = nullptr};
  any_number.regular_files_only = input.regular_files_only;
  Result<Samples> sizes = read_order_file(path, any_number);
  if (!sizes) return io::forward_error(std::move(sizes));
  run.shard_sizes = std::move(*sizes);
  run.sample_count = std::accumulate(run.shard_sizes.begin(), run.shard_sizes.end(), std::uint64_t{0});
  if (io::Status good = check_sizes(run, path, input.sample_count); !good) return io::forward_error(std::move(good));
  return nullptr;
}

}  // namespace

OrderResult make_streaming(Parameters& parameters, const OrderInput& input) {
  Streaming run;
  const std::optional<std::string> path = parameters.text("shard_sizes");
  if (!path) parameters.fail("needs shard_sizes=PATH: how many samples each shard has, one per line");
  run.algorithm =
      static_cast<Algorithm>(parameters.choice("algorithm", {"py1e", "py1br", "py1b", "py1s", "py2s", "naive"}));
  run.seed = parameters.seed("seed", 9176);
  if (run.seed.negative()) parameters.fail("numpy's seeds are not negative");
  run.canonical_nodes = parameters.integer("canonical_nodes", 1, {.least = 1, .most = kMaxReplicas});
  run.block_size = parameters.integer("block_size", 1 << 18, {.least = 4, .most = 1 << 30});
  Shards shards = read_shards(parameters);
  const WorkerLayout workers = read_worker_layout(parameters);
  if (io::Status good = parameters.finish(); !good) return io::forward_error(std::move(good));
  if (OrderResult read = read_shard_sizes(run, *path, input); !read) return read;

  const auto shared = std::make_shared<const Streaming>(std::move(run));
  const bool are_shards = shared->shard_sizes.size() == input.sample_count;
  const auto draw = [=, ranks = shards.replicas](std::uint64_t epoch, std::uint64_t count) -> Result<Samples> {
    Samples samples = side_by_side(*shared, shuffled(*shared, epoch));
    if (are_shards) samples = shards_of(*shared, samples);
    if (!are_shards) pad(samples, ranks);
    samples.resize(count);
    return samples;
  };
  const std::uint64_t rounds = ceil_div(shared->sample_count, shared->canonical_nodes);
  const std::uint64_t length =
      are_shards ? static_cast<std::uint64_t>(std::ranges::count_if(shared->shard_sizes, [](auto s) { return s > 0; }))
                 : ceil_div(rounds * shared->canonical_nodes, shards.replicas) * shards.replicas;
  if (are_shards) shards = {};
  shards.total = length;
  return make_sharded_order(parameters.spec(),
                            {.list_length = length, .draw = draw, .shards = shards, .workers = workers});
}

}  // namespace headrace::cache
