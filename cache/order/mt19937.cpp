// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order/mt19937.h"

#include <algorithm>
#include <cstring>

#include "headrace/io/result.h"

namespace headrace::cache {
namespace {

constexpr std::uint32_t kWords = Mt19937::kStateWords;

[[nodiscard]] constexpr std::uint32_t mixed(std::uint32_t word) {
  return word ^ word >> 30;
}

// For one word and for vectors of them alike.
template <typename Word>
[[nodiscard, gnu::always_inline]] inline Word twisted(Word upper, Word lower, Word shifted) {
  const Word joined = (upper & 0x80000000U) | (lower & 0x7fffffffU);
  return shifted ^ joined >> 1 ^ (-(lower & 1U) & 0x9908b0dfU);
}

// Four words at a time: the instructions that every machine has.
using Words __attribute__((vector_size(16))) = std::uint32_t;
constexpr std::uint32_t kLanes = sizeof(Words) / sizeof(std::uint32_t);

[[nodiscard, gnu::always_inline]] inline Words load(const std::uint32_t* from) {
  Words words;
  std::memcpy(&words, from, sizeof(words));
  return words;
}

// Replaces the words from `begin` to `end`. `shifted` is where the word shifted to `begin` lies: kLanes or more away.
inline void twist_range(std::uint32_t* state, std::uint32_t begin, std::uint32_t end, std::uint32_t shifted) {
  std::uint32_t k = begin;
  for (; k + kLanes <= end; k += kLanes, shifted += kLanes) {
    const Words words = twisted(load(state + k), load(state + k + 1), load(state + shifted));
    std::memcpy(state + k, &words, sizeof(words));
  }
  for (; k < end; ++k, ++shifted) state[k] = twisted(state[k], state[k + 1], state[shifted]);
}

[[nodiscard]] bool contains(const std::array<std::uint32_t, kWords>& state, std::uint32_t word) {
  static_assert(kWords % kLanes == 0);
  Words hits = {};
  for (std::uint32_t k = 0; k < kWords; k += kLanes) hits |= load(state.data() + k) == word;
  std::uint32_t any = 0;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) any |= hits[lane];
  return any != 0;
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

// The words are compared as they are, so that none needs tempering.
std::optional<std::uint64_t> Mt19937::find(std::uint32_t output, std::uint64_t count) {
  const std::uint32_t word = untemper(output);
  const auto find_in_state = [&] {
    const std::uint32_t from = position_;
    const auto at = std::find(state_.begin() + from, state_.end(), word);
    if (at == state_.end()) return std::optional<std::uint64_t>();
    position_ = static_cast<std::uint32_t>(at - state_.begin()) + 1;
    return std::optional<std::uint64_t>(position_ - 1 - from);
  };
  std::uint64_t before = kWords - position_;
  if (const auto found = find_in_state()) return found;
  for (; before < count; before += kWords) {
    twist();
    if (contains(state_, word)) return before + find_in_state().value_or(0);
  }
  position_ = kWords;
  return std::nullopt;
}

// Each step of temper() leaves the bits alone that the shift moved in from, so repeating it lays bare the rest.
std::uint32_t Mt19937::untemper(std::uint32_t output) {
  std::uint32_t word = output ^ output >> 18;
  word ^= word << 15 & 0xefc60000U;
  std::uint32_t low = word;
  for (int known = 7; known < 32; known += 7) low = word ^ (low << 7 & 0x9d2c5680U);
  std::uint32_t high = low;
  for (int known = 11; known < 32; known += 11) high = low ^ high >> 11;
  return high;
}

void Mt19937::twist() {
  constexpr std::uint32_t kTail = kWords - kShift;
  twist_range(state_.data(), 0, kTail, kShift);
  twist_range(state_.data(), kTail, kWords - 1, 0);
  state_[kWords - 1] = twisted(state_[kWords - 1], state_[0], state_[kShift - 1]);
  position_ = 0;
}

}  // namespace headrace::cache
