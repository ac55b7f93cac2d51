// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order/pcg64.h"

#include <array>
#include <bit>
#include <vector>

namespace headrace::cache {
namespace {

using Wide = unsigned __int128;
constexpr std::uint32_t kPoolWords = 4;

[[nodiscard]] constexpr Wide wide(std::uint64_t high, std::uint64_t low) {
  return Wide{high} << 64 | low;
}

constexpr Wide kMultiplier = wide(0x2360ed051fc65da4, 0x4385df649fccf645);

// The hash of SeedSequence: its constant changes with every word.
class WordHash {
 public:
  WordHash(std::uint32_t constant, std::uint32_t multiplier) : constant_(constant), multiplier_(multiplier) {}
  std::uint32_t operator()(std::uint32_t word) {
    word ^= constant_;
    constant_ *= multiplier_;
    word *= constant_;
    return word ^ word >> 16;
  }

 private:
  std::uint32_t constant_;
  std::uint32_t multiplier_;
};

[[nodiscard]] std::uint32_t mix(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t mixed = 0xca01f9ddU * x - 0x4973f715U * y;
  return mixed ^ mixed >> 16;
}

[[nodiscard]] std::array<std::uint32_t, kPoolWords> entropy_pool(const std::vector<std::uint32_t>& entropy) {
  WordHash hash(0x43b0d7e5, 0x931e8875);
  std::array<std::uint32_t, kPoolWords> pool{};
  for (std::uint32_t i = 0; i < kPoolWords; ++i) pool[i] = hash(i < entropy.size() ? entropy[i] : 0);
  for (std::uint32_t from = 0; from < kPoolWords; ++from) {
    for (std::uint32_t to = 0; to < kPoolWords; ++to) {
      if (from != to) pool[to] = mix(pool[to], hash(pool[from]));
    }
  }
  for (std::size_t i = kPoolWords; i < entropy.size(); ++i) {
    for (std::uint32_t& word : pool) word = mix(word, hash(entropy[i]));
  }
  return pool;
}

[[nodiscard]] std::array<std::uint64_t, 4> seed_state(const Seed& seed) {
  const auto pool = entropy_pool(seed.words());
  WordHash hash(0x8b51f9dd, 0x58f38ded);
  std::array<std::uint64_t, 4> state{};
  for (std::uint32_t i = 0; i < 2 * state.size(); ++i) {
    state[i / 2] |= std::uint64_t{hash(pool[i % kPoolWords])} << (i % 2 * 32);
  }
  return state;
}

}  // namespace

Pcg64::Pcg64(const Seed& seed) {
  const auto state = seed_state(seed);
  increment_ = wide(state[2], state[3]) << 1 | 1;
  state_ = (increment_ + wide(state[0], state[1])) * kMultiplier + increment_;
}

std::uint64_t Pcg64::next64() {
  state_ = state_ * kMultiplier + increment_;
  const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

std::uint32_t Pcg64::next32() {
  if (high_half_) {
    const std::uint32_t high = *high_half_;
    high_half_.reset();
    return high;
  }
  const std::uint64_t drawn = next64();
  high_half_ = static_cast<std::uint32_t>(drawn >> 32);
  return static_cast<std::uint32_t>(drawn);
}

}  // namespace headrace::cache
