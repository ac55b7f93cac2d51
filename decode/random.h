// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: what a sample draws depends on (seed, epoch, position, sample index) and on nothing
// else. So a run repeats whatever the number of threads and wherever it was resumed, and a sample that an epoch has
// twice draws anew the second time.
//
//   Random random({.seed = 1, .epoch = 3, .position = 5, .sample = 17});
//   double scale = random.uniform(0.08, 1.0);
//
// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Key: the seed. Counter:
// number of the block, sample, epoch, position. Of epoch and position the lower 32 bits count: no training has more
// epochs, and of the places that a sample has in one epoch no two are apart by a multiple of 2^32.
//
// Thread-safety: none. Making a generator costs nothing: make one where you need it.
#pragma once

#include <array>
#include <cstdint>

namespace headrace::decode {

struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  // within the epoch
  std::uint32_t sample = 0;
};

using PhiloxBlock = std::array<std::uint32_t, 4>;

[[nodiscard]] constexpr PhiloxBlock philox4x32_10(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

class Random {
 public:
  explicit Random(const RandomKey& key)
      : key_{static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)},
        counter_{0, key.sample, static_cast<std::uint32_t>(key.epoch), static_cast<std::uint32_t>(key.position)} {}

  [[nodiscard]] std::uint32_t bits() {
    if (used_ == block_.size()) {
      block_ = philox4x32_10(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }
  // [0, 1), 53 random bits.
  [[nodiscard]] double uniform() {
    const std::uint64_t high = bits() >> 5;
    const std::uint64_t low = bits() >> 6;
    return static_cast<double>(high << 26 | low) * 0x1p-53;
  }
  [[nodiscard]] double uniform(double low, double high) { return low + (high - low) * uniform(); }
  // [0, bound), bound > 0. The bias of the multiplication is below bound / 2^53.
  [[nodiscard]] std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(uniform() * static_cast<double>(bound));
  }

 private:
  std::array<std::uint32_t, 2> key_;
  PhiloxBlock counter_;
  PhiloxBlock block_ = {};
  std::size_t used_ = 4;
};

}  // namespace headrace::decode
