// SPDX-License-Identifier: Apache-2.0
// litdata: the chunks of LitData's StreamingDataset (litdata/streaming/shuffle.py, utilities/shuffle.py of 0.2.18 and
// later). The samples are the chunks, as chunk-RANK-NUMBER.bin.
//
// The chunks are shuffled with RandomState(seed + epoch), whose epochs count from 1. Then all workers of all ranks get
// an equal number of items, one worker after the other, so that a chunk may lie with two of them. Workers advance side
// by side, item by item; the order is that in which an epoch touches the chunks first.
#include <algorithm>
#include <numeric>
#include <utility>

#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"
#include "headrace/cache/order/shuffles.h"

namespace headrace::cache {
namespace {

struct Litdata {
  Seed seed;
  bool shuffle = true;
  bool drop_last = false;
  std::uint64_t batch = 1;
  std::uint64_t workers = 1;  // of a rank
  Shards shards;
  std::vector<std::uint32_t> sizes;  // items of each chunk
};

// A chunk begins with a worker's item of that number.
struct Touch {
  std::uint64_t item = 0;
  std::uint64_t reader = 0;  // of all workers of all ranks
  SampleIndex chunk = 0;
};

[[nodiscard]] std::vector<std::uint64_t> items_of_readers(const Litdata& run) {
  const std::uint64_t items = std::accumulate(run.sizes.begin(), run.sizes.end(), std::uint64_t{0});
  std::vector<std::uint64_t> counts(run.shards.replicas * run.workers);
  for (std::uint64_t& count : counts) count = items / counts.size();
  if (!run.drop_last) counts.back() += items % counts.size();
  if (run.drop_last) {
    for (std::uint64_t& count : counts) count -= count % run.batch;
  }
  return counts;
}

[[nodiscard]] std::vector<Touch> deal(const Litdata& run, const Samples& chunks) {
  const std::vector<std::uint64_t> counts = items_of_readers(run);
  std::vector<Touch> touches;
  std::uint64_t reader = 0;
  std::uint64_t taken = 0;  // by that reader
  for (const SampleIndex chunk : chunks) {
    std::uint64_t left = run.sizes[chunk];
    while (left > 0) {
      while (reader < counts.size() && taken == counts[reader]) {
        ++reader;
        taken = 0;
      }
      if (reader == counts.size()) return touches;
      touches.push_back({.item = taken, .reader = reader, .chunk = chunk});
      const std::uint64_t now = std::min(left, counts[reader] - taken);
      taken += now;
      left -= now;
    }
  }
  return touches;
}

// As the ranks that read here touch them.
[[nodiscard]] Samples epoch_of(const Litdata& run, std::uint64_t epoch) {
  Samples chunks = first_indices(run.sizes.size());
  if (run.shuffle) {
    Mt19937 engine(run.seed.plus(epoch + 1).low32());
    numpy_shuffle(engine, chunks);
  }
  std::vector<Touch> touches = deal(run, chunks);
  const std::uint64_t first = run.shards.first_rank * run.workers;
  const std::uint64_t end = first + run.shards.rank_count * run.workers;
  std::erase_if(touches, [&](const Touch& touch) { return touch.reader < first || touch.reader >= end; });
  std::ranges::stable_sort(touches, {}, &Touch::item);
  Samples read;
  std::vector<bool> is_touched(run.sizes.size(), false);
  for (const Touch& touch : touches) {
    if (is_touched[touch.chunk]) continue;
    is_touched[touch.chunk] = true;
    read.push_back(touch.chunk);
  }
  return read;
}

// How many chunks an epoch touches depends on how it is dealt.
class LitdataOrder final : public Order {
 public:
  LitdataOrder(std::string spec, Litdata run, WorkerLayout layout)
      : spec_(std::move(spec)), run_(std::move(run)), layout_(layout) {}
  [[nodiscard]] const std::string& spec() const override { return spec_; }
  [[nodiscard]] std::uint64_t length(std::uint64_t epoch) const override { return epoch_of(run_, epoch).size(); }
  [[nodiscard]] Result<Samples> epoch(std::uint64_t epoch) const override { return epoch_of(run_, epoch); }
  [[nodiscard]] WorkerLayout workers() const override { return layout_; }

 private:
  const std::string spec_;
  const Litdata run_;
  const WorkerLayout layout_;
};

[[nodiscard]] Result<std::vector<std::uint32_t>> read_sizes(const std::string& path, const OrderInput& input) {
  OrderInput any_number{.sample_count = std::uint64_t{1} << 32, .find_sample = nullptr};
  any_number.regular_files_only = input.regular_files_only;
  HEADRACE_TRY(sizes, read_order_file(path, any_number));
  if (sizes.size() == input.sample_count) return sizes;
  return io::make_error(io::ErrorCode::kInvalidArgument,
                        "order 'litdata': " + path + " lists " + std::to_string(sizes.size()) +
                            " chunks, the data set has " + std::to_string(input.sample_count) +
                            " files; leave index.json out with torch-subset:range=0:N,of=litdata:...");
}

}  // namespace

OrderResult make_litdata(Parameters& parameters, const OrderInput& input) {
  Litdata run;
  const std::optional<std::string> path = parameters.text("chunk_sizes");
  if (!path) parameters.fail("needs chunk_sizes=PATH: how many items each chunk has, one per line");
  run.seed = parameters.seed("seed", 42);
  if (run.seed.negative() || run.seed.words().size() > 1)
    parameters.fail("numpy's seeds are below 2^32 and not negative");
  run.shuffle = parameters.flag("shuffle", true);
  run.drop_last = parameters.flag("drop_last", false);
  run.shards = read_shards(parameters);
  WorkerLayout layout = read_worker_layout(parameters);
  if (io::Status good = parameters.finish(); !good) return io::forward_error(std::move(good));
  HEADRACE_TRY(sizes, read_sizes(*path, input));
  run.sizes = std::move(sizes);
  run.batch = layout.batch;
  run.workers = layout.workers = std::max<std::uint32_t>(layout.workers, 1);
  layout.batch = static_cast<std::uint32_t>(run.shards.rank_count);  // a worker has one chunk open at a time
  return std::make_unique<LitdataOrder>(parameters.spec(), std::move(run), layout);
}

}  // namespace headrace::cache
