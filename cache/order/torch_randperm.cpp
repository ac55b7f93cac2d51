// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order/torch_randperm.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace headrace::cache {
namespace {

// The positions of 0, 1, 2, ... that a partial shuffle has moved, by open addressing. A position p not in it holds p.
class MovedPositions {
 public:
  explicit MovedPositions(std::uint64_t swaps)
      : slots_(std::bit_ceil(2 * swaps)), shift_(64 - std::countr_zero(slots_.size())) {}

  // Gives position `from` the value `value` and returns the one it had.
  SampleIndex exchange(std::uint64_t position, SampleIndex value) {
    Slot& slot = find(position);
    const SampleIndex before = slot.key == 0 ? static_cast<SampleIndex>(position) : slot.value;
    slot = {.key = position + 1, .value = value};
    return before;
  }
  [[nodiscard]] SampleIndex at(std::uint64_t position) {
    const Slot& slot = find(position);
    return slot.key == 0 ? static_cast<SampleIndex>(position) : slot.value;
  }

 private:
  struct Slot {
    std::uint64_t key = 0;  // position + 1; 0: empty
    SampleIndex value = 0;
  };

  [[nodiscard]] Slot& find(std::uint64_t position) {
    // Fibonacci hashing; the table is at most half full, so a free slot always ends the walk.
    std::size_t i = shift_ == 64 ? 0 : position * 0x9e3779b97f4a7c15ULL >> shift_;
    while (slots_[i].key != 0 && slots_[i].key != position + 1) i = (i + 1) & (slots_.size() - 1);
    return slots_[i];
  }

  std::vector<Slot> slots_;
  int shift_;
};

[[nodiscard]] std::uint64_t drawn_position(Mt19937& generator, std::uint64_t i, std::uint64_t n) {
  // The last position takes no draw. n - i fits 32 bits except for n = 2^32, i = 0, where the modulo changes nothing.
  return i + 1 == n ? i : i + generator.next32() % (n - i);
}

std::vector<SampleIndex> sparse_prefix(Mt19937& generator, std::uint64_t n, std::uint64_t count) {
  MovedPositions moved(count);
  std::vector<SampleIndex> order(count);
  for (std::uint64_t i = 0; i < count; ++i) order[i] = moved.exchange(drawn_position(generator, i, n), moved.at(i));
  return order;
}

std::vector<SampleIndex> identity(std::uint64_t n) {
  std::vector<SampleIndex> order(n);
  std::iota(order.begin(), order.end(), SampleIndex{0});
  return order;
}

std::vector<SampleIndex> dense_prefix(Mt19937& generator, std::uint64_t n, std::uint64_t count) {
  std::vector<SampleIndex> order = identity(n);
  for (std::uint64_t i = 0; i < count; ++i) std::swap(order[i], order[drawn_position(generator, i, n)]);
  order.resize(count);
  return order;
}

// Inside-out: every element can still move until the last draw, so there is no short form.
std::vector<SampleIndex> wide(Mt19937& generator, std::uint64_t n, std::uint64_t count) {
  std::vector<SampleIndex> order = identity(n);
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint64_t z = generator.next64_high_first() % (i + 1);
    order[i] = order[z];
    order[z] = static_cast<SampleIndex>(i);
  }
  order.resize(count);
  return order;
}

// Below this share of n the sparse form never needs more memory than the array: at most 4 slots of 16 bytes per
// position against 4 bytes per element.
constexpr std::uint64_t kSparseShare = 16;

}  // namespace

std::vector<SampleIndex> torch_randperm(Mt19937& generator, std::uint64_t n, std::uint64_t count,
                                        TorchVersion version) {
  count = std::min(count, n);
  if (count == 0) return {};
  if (version.uses_wide_draws(n)) return wide(generator, n, count);
  return count < n / kSparseShare ? sparse_prefix(generator, n, count) : dense_prefix(generator, n, count);
}

std::uint64_t randperm_outputs(std::uint64_t n, TorchVersion version) {
  if (version.uses_wide_draws(n)) return 2 * n;
  return n == 0 ? 0 : n - 1;
}

}  // namespace headrace::cache
