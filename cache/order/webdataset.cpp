// SPDX-License-Identifier: Apache-2.0
// webdataset: the shards of WebDataset with a seed (webdataset/compat.py, filters.py, shardlists.py of 0.2 and 1.0).
// The samples are the shards: tar files, in the order of their names.
//
// Shards are dealt to ranks, then to the workers of each, one by one. Each worker shuffles its own within a buffer, all
// with the same seed; SimpleShardList shuffles the whole list before. Workers advance side by side.
#include <algorithm>
#include <span>

#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"
#include "headrace/cache/order/shuffles.h"

namespace headrace::cache {
namespace {

enum class Mode : std::uint8_t { kShuffle, kDetshuffle, kList, kNone };

struct Webdataset {
  Mode mode = Mode::kShuffle;
  Seed seed;
  bool persistent = false;
  std::uint64_t buffer = 0;
  std::uint64_t initial = 0;
  std::uint64_t workers = 1;
  Shards shards;
};

// filters._shuffle: two are taken for each that is given, until the buffer is full.
[[nodiscard]] Samples buffer_shuffled(const Samples& list, const Webdataset& run, const Seed& seed) {
  Mt19937 engine = Mt19937::by_array(seed.words());
  const std::uint64_t initial = std::min(run.initial, run.buffer);
  Samples buffer;
  Samples shuffled;
  const auto pick = [&] {
    std::swap(buffer[python_below(engine, static_cast<std::uint32_t>(buffer.size()))], buffer.back());
    shuffled.push_back(buffer.back());
    buffer.pop_back();
  };
  for (std::size_t i = 0; i < list.size();) {
    buffer.push_back(list[i++]);
    if (buffer.size() < run.buffer && i < list.size()) buffer.push_back(list[i++]);
    if (buffer.size() >= initial) pick();
  }
  while (!buffer.empty()) pick();
  return shuffled;
}

[[nodiscard]] Samples whole_list(const Webdataset& run) {
  Samples list = first_indices(run.shards.total);
  if (run.mode != Mode::kList) return list;
  Mt19937 engine = Mt19937::by_array(run.seed.words());
  python_shuffle(engine, list);
  return list;
}

// Every `step`-th from `first` on.
[[nodiscard]] Samples dealt(const Samples& list, std::uint64_t first, std::uint64_t step) {
  Samples part;
  for (std::uint64_t i = first; i < list.size(); i += step) part.push_back(list[i]);
  return part;
}

[[nodiscard]] Samples read_by(const Webdataset& run, const Samples& list, std::uint64_t rank, std::uint64_t worker,
                              std::uint64_t epoch) {
  Samples part = dealt(dealt(list, rank, run.shards.replicas), worker, run.workers);
  if (run.mode == Mode::kShuffle) return buffer_shuffled(part, run, run.seed);
  if (run.mode == Mode::kDetshuffle) return buffer_shuffled(part, run, run.seed.plus(run.persistent ? epoch : 0));
  return part;
}

[[nodiscard]] Samples epoch_of(const Webdataset& run, std::uint64_t epoch) {
  const Samples list = whole_list(run);
  std::vector<Samples> readers;  // ranks of the first worker first
  for (std::uint64_t worker = 0; worker < run.workers; ++worker) {
    for (std::uint64_t rank = 0; rank < run.shards.rank_count; ++rank) {
      readers.push_back(read_by(run, list, run.shards.first_rank + rank, worker, epoch));
    }
  }
  Samples read;
  const std::size_t rounds = std::ranges::max(readers, {}, &Samples::size).size();
  for (std::size_t round = 0; round < rounds; ++round) {
    for (const Samples& reader : readers) {
      if (round < reader.size()) read.push_back(reader[round]);
    }
  }
  return read;
}

[[nodiscard]] std::uint64_t length_of(const Shards& shards) {
  std::uint64_t length = 0;
  for (std::uint64_t rank = shards.first_rank; rank < shards.first_rank + shards.rank_count; ++rank) {
    length += (shards.total + shards.replicas - 1 - rank) / shards.replicas;
  }
  return length;
}

}  // namespace

OrderResult make_webdataset(Parameters& parameters, const OrderInput& input) {
  constexpr std::uint64_t kMostBuffer = 1 << 24;
  Webdataset run;
  run.mode = static_cast<Mode>(parameters.choice("mode", {"shuffle", "detshuffle", "list", "none"}));
  run.seed = parameters.seed("seed", 0);
  run.persistent = parameters.flag("persistent", true);
  run.buffer = parameters.integer("shardshuffle", 100, {.least = 1, .most = kMostBuffer});
  run.initial = parameters.integer("initial", 100, {.least = 0, .most = kMostBuffer});
  if (input.sample_count > UINT32_MAX) parameters.fail("at most 2^32 - 1 samples, which are shards");
  run.shards = read_shards(parameters);
  run.shards.total = input.sample_count;
  WorkerLayout layout = read_worker_layout(parameters);
  if (io::Status good = parameters.finish(); !good) return io::forward_error(std::move(good));
  run.workers = layout.workers = std::max<std::uint32_t>(layout.workers, 1);
  layout.batch = static_cast<std::uint32_t>(run.shards.rank_count);  // a worker has one shard open at a time
  const auto draw = [run](std::uint64_t epoch, std::uint64_t count) -> Result<Samples> {
    Samples read = epoch_of(run, epoch);
    read.resize(count);
    return read;
  };
  const std::uint64_t length = length_of(run.shards);
  return make_sharded_order(parameters.spec(),
                            {.list_length = length, .draw = draw, .shards = {.total = length}, .workers = layout});
}

}  // namespace headrace::cache
