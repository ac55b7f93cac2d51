// SPDX-License-Identifier: Apache-2.0
// MT19937, the engine behind torch's CPU generator, numpy's RandomState, CPython's random and std::mt19937.
//
//   Mt19937 engine(42);                          // torch.manual_seed(42), np.random.seed(42), std::mt19937(42)
//   auto same = Mt19937::by_array({{42}});       // random.seed(42), RandomState([42])
//
// Source: Matsumoto and Nishimura, ACM TOMACS 8(1), 1998; the 2002 seeding. Equal seeds give equal streams everywhere.
// Thread-safety: none; copy it to fork a stream.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace headrace::cache {

class Mt19937 {
 public:
  static constexpr std::uint32_t kStateWords = 624;
  static constexpr std::uint32_t kShift = 397;  // word k of the next state depends on words k, k + 1 and k + kShift

  explicit Mt19937(std::uint32_t seed);
  // `key` must not be empty.
  [[nodiscard]] static Mt19937 by_array(std::span<const std::uint32_t> key);

  [[nodiscard]] std::uint32_t next32() {
    if (position_ == kStateWords) twist();
    return temper(state_[position_++]);
  }
  // torch's random64(): the first output is the high half.
  [[nodiscard]] std::uint64_t next64_high_first() {
    const std::uint64_t high = next32();
    return high << 32 | next32();
  }
  // As `count` calls of next32(), at about a nanosecond each.
  void discard(std::uint64_t count);
  // How many calls of next32() come before the one that returns `output`, which is the last one discarded; nullopt: it
  // is not among the next `count` and the rest of its state's words, which are discarded. Outputs that are not looked
  // at cost a quarter of a nanosecond each.
  [[nodiscard]] std::optional<std::uint64_t> find(std::uint32_t output, std::uint64_t count);

  [[nodiscard]] static constexpr std::uint32_t temper(std::uint32_t word) {
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680U;
    word ^= word << 15 & 0xefc60000U;
    return word ^ word >> 18;
  }
  // The word that temper() makes `output` of.
  [[nodiscard]] static std::uint32_t untemper(std::uint32_t output);

 private:
  void twist();

  std::array<std::uint32_t, kStateWords> state_;
  std::uint32_t position_ = kStateWords;
};

}  // namespace headrace::cache
