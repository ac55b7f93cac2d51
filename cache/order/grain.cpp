// SPDX-License-Identifier: Apache-2.0
// grain: Grain's global shuffle (MapDataset.shuffle, DataLoader's IndexSampler), whose index_shuffle() sends a position
// through a small block cipher until what comes out is a position again. The cipher is Simon (eprint.iacr.org/2013/404)
// with as many bits as the positions have, four rounds, and keys of std::seed_seq. Each epoch has its own seed,
// seed + epoch.
#include <algorithm>
#include <array>
#include <bit>
#include <random>
#include <span>

#include "headrace/cache/order/families.h"
#include "headrace/cache/order/sharded_order.h"

namespace headrace::cache {
namespace {

// Half a block: the two are what the rounds of the cipher mix.
class HalfBlocks {
 public:
  explicit HalfBlocks(unsigned bits) : bits_(bits), mask_((std::uint64_t{1} << bits) - 1) {}

  [[nodiscard]] std::uint64_t encrypt(std::uint64_t value, std::span<const std::uint32_t> keys) const {
    std::uint64_t left = value >> bits_ & mask_;
    std::uint64_t right = value & mask_;
    for (std::size_t i = 0; i < keys.size(); i += 2) {
      left ^= mixed(right) ^ (keys[i] & mask_);
      right ^= mixed(left) ^ (keys[i + 1] & mask_);
    }
    return left << bits_ | right;
  }

 private:
  [[nodiscard]] std::uint64_t rotated(std::uint64_t half, unsigned by) const {
    return (half << by | half >> (bits_ - by)) & mask_;
  }
  [[nodiscard]] std::uint64_t mixed(std::uint64_t half) const {
    return (rotated(half, 1) & rotated(half, 8)) ^ rotated(half, 2);
  }

  const unsigned bits_;
  const std::uint64_t mask_;
};

class IndexShuffle {
 public:
  IndexShuffle(std::uint64_t count, std::uint32_t seed) : last_(count - 1), halves_(half_bits(count - 1)) {
    std::seed_seq({seed}).generate(keys_.begin(), keys_.end());
  }
  [[nodiscard]] SampleIndex operator()(std::uint64_t position) const {
    if (last_ == 0) return 0;
    do position = halves_.encrypt(position, keys_);
    while (position > last_);
    return static_cast<SampleIndex>(position);
  }

 private:
  // Half of ceil(log2(last)), rounded up, and 8 at least.
  [[nodiscard]] static unsigned half_bits(std::uint64_t last) {
    constexpr int kLeast = 8;
    const auto bits = static_cast<int>(last < 2 ? 0 : std::bit_width(last - 1));
    return static_cast<unsigned>(std::max((bits + 1) / 2, kLeast));
  }

  static constexpr std::size_t kRounds = 4;
  const std::uint64_t last_;
  const HalfBlocks halves_;
  std::array<std::uint32_t, kRounds> keys_{};
};

}  // namespace

OrderResult make_grain(Parameters& parameters, const OrderInput& input) {
  const Seed seed = parameters.seed("seed", 0);
  if (seed.negative() || seed.words().size() > 1) parameters.fail("Grain's seeds are below 2^32 and not negative");
  Shards shards = read_shards(parameters);
  shards.total = input.sample_count;
  const WorkerLayout workers = read_worker_layout(parameters);
  if (io::Status good = parameters.finish(); !good) return io::forward_error(std::move(good));
  const std::uint64_t n = input.sample_count;
  const auto draw = [=](std::uint64_t epoch, std::uint64_t count) -> Result<Samples> {
    const IndexShuffle shuffle(n, seed.plus(epoch).low32());
    Samples samples(count);
    for (std::uint64_t i = 0; i < count; ++i) samples[i] = shuffle(i);
    return samples;
  };
  return make_sharded_order(parameters.spec(), {.list_length = n, .draw = draw, .shards = shards, .workers = workers});
}

}  // namespace headrace::cache
