// SPDX-License-Identifier: Apache-2.0
// Output k < 227 of a fresh MT19937 needs state words k, k + 1 and k + 397 only, so that a seed costs 400 steps of the
// seeding recurrence x' = 1812433253 * (x ^ x >> 30) + i and no twist of the state. Each step waits for the one before;
// the lanes of several vectors hold different seeds, so that the multiplier never idles.
//
// The body is written once with the compilers' vector types and compiled for three instruction sets. The choice is a
// plain branch: resolvers that run before main do not get along with sanitizers.
#include "headrace/cache/learn/seed_scan.h"

#include <algorithm>
#include <cstring>

#include "headrace/cache/order/mt19937.h"
#include "headrace/cache/order/torch_randperm.h"

namespace headrace::cache {
namespace {

constexpr std::uint32_t kWords = SeedScan::kElements + 1;  // state words per half that the elements need

using Word128 __attribute__((vector_size(16))) = std::uint32_t;
using Wide128 __attribute__((vector_size(16))) = std::uint64_t;
using Word256 __attribute__((vector_size(32))) = std::uint32_t;
using Wide256 __attribute__((vector_size(32))) = std::uint64_t;
using Word512 __attribute__((vector_size(64))) = std::uint32_t;
using Wide512 __attribute__((vector_size(64))) = std::uint64_t;

}  // namespace

// Word: a vector of 32-bit lanes; Wide: the same bits as 64-bit lanes; kVectors: how many to interleave, as many as the
// registers hold.
struct SeedScan::Kernels {
  template <typename Word, typename Wide, std::uint32_t kVectors>
  struct Kernel {
    static constexpr std::uint32_t kLanes = sizeof(Word) / sizeof(std::uint32_t);
    static constexpr std::uint32_t kSeeds = kLanes * kVectors;

    struct Block {
      alignas(64) std::uint32_t low[kWords][kSeeds];   // state words first_output, ...
      alignas(64) std::uint32_t high[kWords][kSeeds];  // state words first_output + 397, ...
      alignas(64) std::uint32_t sample[kSeeds];        // the first element of the permutation
    };

    // Advances all seeds from state word `from` to `to`.
    [[gnu::always_inline]] static inline void advance(Word (&state)[kVectors], std::uint32_t from, std::uint32_t to) {
      for (std::uint32_t i = from + 1; i <= to; ++i) {
        for (std::uint32_t v = 0; v < kVectors; ++v) state[v] = (state[v] ^ state[v] >> 30U) * 1812433253U + i;
      }
    }
    [[gnu::always_inline]] static inline void keep(Word (&state)[kVectors], std::uint32_t first,
                                                   std::uint32_t (&words)[kWords][kSeeds]) {
      for (std::uint32_t w = 0; w < kWords; ++w) {
        if (w != 0) advance(state, first + w - 1, first + w);
        std::memcpy(words[w], state, sizeof(words[w]));
      }
    }
    [[gnu::always_inline]] static inline void draw_states(const std::uint32_t* seeds, std::uint32_t first_output,
                                                          Block& block) {
      Word state[kVectors];
      for (std::uint32_t v = 0; v < kVectors; ++v)
        std::memcpy(&state[v], seeds + std::size_t{v} * kLanes, sizeof(Word));
      advance(state, 0, first_output);
      keep(state, first_output, block.low);
      advance(state, first_output + kWords - 1, first_output + Mt19937::kShift);
      keep(state, first_output + Mt19937::kShift, block.high);
    }

    [[gnu::always_inline]] static inline void first_samples(Block& block, Divisor divisor, std::uint32_t position) {
      for (std::uint32_t at = 0; at < kSeeds; at += kLanes) {
        Word low;
        Word next;
        Word high;
        std::memcpy(&low, block.low[0] + at, sizeof(Word));
        std::memcpy(&next, block.low[1] + at, sizeof(Word));
        std::memcpy(&high, block.high[0] + at, sizeof(Word));
        Word x = high ^ ((low & 0x80000000U) | (next & 0x7fffffffU)) >> 1U ^ (-(next & 1U) & 0x9908b0dfU);
        x ^= x >> 11U;
        x ^= x << 7U & 0x9d2c5680U;
        x ^= x << 15U & 0xefc60000U;
        x ^= x >> 18U;
        // The high halves of x * reciprocal: even lanes and odd lanes apart.
        const Wide even = (reinterpret_cast<Wide>(x) & 0xffffffffU) * divisor.reciprocal >> 32U;
        const Wide odd = (reinterpret_cast<Wide>(x) >> 32U) * divisor.reciprocal & 0xffffffff00000000U;
        const Wide quotient = even | odd;
        Word rest = x - reinterpret_cast<Word>(quotient) * divisor.value;
        rest = (rest >= divisor.value ? rest - divisor.value : rest) + position;
        std::memcpy(block.sample + at, &rest, sizeof(Word));
      }
    }

    // `given`: the seeds; null: `count` from `first` on.
    [[gnu::always_inline]] static inline void run(const SeedScan& scan, const std::uint32_t* given, std::uint32_t first,
                                                  std::uint64_t count, std::vector<std::uint32_t>& survivors) {
      const std::uint8_t* opened = scan.opened_.data();
      constexpr std::uint32_t kGroup = 8;  // one branch for so many look-ups: hits are rare
      Block block;
      alignas(64) std::uint32_t seeds[kSeeds] = {};
      for (std::uint64_t done = 0; done < count; done += kSeeds) {
        const auto first_seed = static_cast<std::uint32_t>(first + done);
        if (given != nullptr) {
          std::memcpy(seeds, given + done, std::min<std::uint64_t>(kSeeds, count - done) * sizeof(std::uint32_t));
        } else {
          for (std::uint32_t i = 0; i < kSeeds; ++i) seeds[i] = first_seed + i;
        }
        draw_states(seeds, scan.first_output_, block);
        first_samples(block, scan.divisors_[0], scan.plan_.first_position);
        for (std::uint32_t at = 0; at < kSeeds; at += kGroup) {
          std::uint8_t any = 0;
          for (std::uint32_t i = at; i < at + kGroup; ++i) any |= opened[block.sample[i] % kTableSize];
          if (any == 0) continue;
          for (std::uint32_t i = at; i < at + kGroup && done + i < count; ++i) {
            if (survives(scan, block, i)) survivors.push_back(seeds[i]);
          }
        }
      }
    }

    [[nodiscard]] static bool survives(const SeedScan& scan, const Block& block, std::uint32_t i) {
      if (scan.opened_[block.sample[i] % kTableSize] == 0) return false;
      for (std::uint32_t e = 1; e < kElements; ++e) {
        const std::uint32_t joined = (block.low[e][i] & 0x80000000U) | (block.low[e + 1][i] & 0x7fffffffU);
        const std::uint32_t word = block.high[e][i] ^ joined >> 1 ^ ((joined & 1U) != 0 ? 0x9908b0dfU : 0U);
        const std::uint32_t sample = scan.plan_.first_position + e + Mt19937::temper(word) % scan.divisors_[e].value;
        if (scan.opened_[sample % kTableSize] == 0) return false;
      }
      return true;
    }
  };

#if defined(__x86_64__)
  [[gnu::target("avx512f,avx512dq,avx512bw,avx512vl")]] static void avx512(const SeedScan& scan,
                                                                           const std::uint32_t* given,
                                                                           std::uint32_t first, std::uint64_t count,
                                                                           std::vector<std::uint32_t>& survivors) {
    Kernel<Word512, Wide512, 8>::run(scan, given, first, count, survivors);
  }
  [[gnu::target("avx2")]] static void avx2(const SeedScan& scan, const std::uint32_t* given, std::uint32_t first,
                                           std::uint64_t count, std::vector<std::uint32_t>& survivors) {
    Kernel<Word256, Wide256, 6>::run(scan, given, first, count, survivors);
  }
#endif
  static void baseline(const SeedScan& scan, const std::uint32_t* given, std::uint32_t first, std::uint64_t count,
                       std::vector<std::uint32_t>& survivors) {
    Kernel<Word128, Wide128, 4>::run(scan, given, first, count, survivors);
  }

  using Function = void (*)(const SeedScan&, const std::uint32_t*, std::uint32_t, std::uint64_t,
                            std::vector<std::uint32_t>&);
  struct Choice {
    std::string_view name;
    Function run;
  };
  [[nodiscard]] static Choice best() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl")) {
      return {"avx512", avx512};
    }
    if (__builtin_cpu_supports("avx2")) return {"avx2", avx2};
#endif
    return {"baseline", baseline};
  }
};

bool SeedScan::possible(const SeedScanPlan& plan) {
  constexpr std::uint32_t kFirstTwist = Mt19937::kStateWords - Mt19937::kShift;  // outputs that need no twisted word
  return plan.n > std::uint64_t{plan.first_position} + kElements && plan.n < TorchVersion::kWideFrom &&
         std::uint64_t{plan.first_position} + plan.skipped_outputs + kElements < kFirstTwist;
}

SeedScan::SeedScan(std::span<const SampleIndex> opened, SeedScanPlan plan)
    : plan_(plan), first_output_(plan.skipped_outputs + plan.first_position), opened_(kTableSize) {
  HEADRACE_ASSERT(possible(plan));
  for (std::uint32_t e = 0; e < kElements; ++e) {
    const auto divisor = static_cast<std::uint32_t>(plan.n - plan.first_position - e);
    divisors_[e] = {.value = divisor,
                    .reciprocal = static_cast<std::uint32_t>(
                        std::min<std::uint64_t>((std::uint64_t{1} << 32) / divisor, UINT32_MAX))};
  }
  for (const SampleIndex sample : opened) opened_[sample % kTableSize] = 1;
}

void SeedScan::run(std::uint32_t first, std::uint64_t count, std::vector<std::uint32_t>& survivors) const {
  static const Kernels::Choice choice = Kernels::best();
  choice.run(*this, nullptr, first, count, survivors);
}

void SeedScan::run(std::span<const std::uint32_t> seeds, std::vector<std::uint32_t>& survivors) const {
  static const Kernels::Choice choice = Kernels::best();
  if (!seeds.empty()) choice.run(*this, seeds.data(), 0, seeds.size(), survivors);
}

void SeedScan::run_baseline(std::uint32_t first, std::uint64_t count, std::vector<std::uint32_t>& survivors) const {
  Kernels::baseline(*this, nullptr, first, count, survivors);
}

std::string_view SeedScan::instruction_set() {
  return Kernels::best().name;
}

}  // namespace headrace::cache
