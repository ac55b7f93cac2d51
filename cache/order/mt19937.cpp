// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order/mt19937.h"

#include <algorithm>

#include "headrace/io/result.h"

namespace headrace::cache {
namespace {

constexpr std::uint32_t kWords = Mt19937::kStateWords;

[[nodiscard]] constexpr std::uint32_t mixed(std::uint32_t word) {
  return word ^ word >> 30;
}

[[nodiscard]] constexpr std::uint32_t twisted(std::uint32_t upper, std::uint32_t lower, std::uint32_t shifted) {
  const std::uint32_t joined = (upper & 0x80000000U) | (lower & 0x7fffffffU);
  return shifted ^ joined >> 1 ^ ((lower & 1U) != 0 ? 0x9908b0dfU : 0U);
}

}  // namespace

Mt19937::Mt19937(std::uint32_t seed) {
  state_[0] = seed;
  for (std::uint32_t i = 1; i < kWords; ++i) state_[i] = 1812433253U * mixed(state_[i - 1]) + i;
}

Mt19937 Mt19937::by_array(std::span<const std::uint32_t> key) {
  HEADRACE_ASSERT(!key.empty());
  Mt19937 engine(19650218);
  auto& state = engine.state_;
  std::uint32_t i = 1;
  const auto advance = [&] {
    if (++i < kWords) return;
    state[0] = state[kWords - 1];
    i = 1;
  };
  std::size_t j = 0;
  for (std::size_t left = std::max<std::size_t>(kWords, key.size()); left > 0; --left) {
    state[i] = (state[i] ^ mixed(state[i - 1]) * 1664525U) + key[j] + static_cast<std::uint32_t>(j);
    advance();
    j = (j + 1) % key.size();
  }
  for (std::uint32_t left = kWords - 1; left > 0; --left) {
    state[i] = (state[i] ^ mixed(state[i - 1]) * 1566083941U) - i;
    advance();
  }
  state[0] = 0x80000000U;
  return engine;
}

void Mt19937::discard(std::uint64_t count) {
  while (count > kWords - position_) {
    count -= kWords - position_;
    twist();
  }
  position_ += static_cast<std::uint32_t>(count);
}

void Mt19937::twist() {
  constexpr std::uint32_t kTail = kWords - kShift;
  for (std::uint32_t k = 0; k < kTail; ++k) state_[k] = twisted(state_[k], state_[k + 1], state_[k + kShift]);
  for (std::uint32_t k = kTail; k < kWords - 1; ++k) state_[k] = twisted(state_[k], state_[k + 1], state_[k - kTail]);
  state_[kWords - 1] = twisted(state_[kWords - 1], state_[0], state_[kShift - 1]);
  position_ = 0;
}

}  // namespace headrace::cache
