// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/disk/known_files.h"

namespace headrace::cache {
namespace {

constexpr std::size_t kBitsPerFile = 16;

std::uint64_t bit_of(std::uint64_t identity_hash) {
  return std::uint64_t{1} << (identity_hash % 64);
}

}  // namespace

KnownFiles::KnownFiles(std::size_t files) : words_(files * kBitsPerFile / kWordBits + 1) {}

void KnownFiles::add(std::uint64_t identity_hash) {
  const std::uint64_t bit = bit_of(identity_hash);
  const std::uint64_t before = word_of(identity_hash).fetch_or(bit, std::memory_order_relaxed);
  if ((before & bit) == 0) changes_.fetch_add(1, std::memory_order_relaxed);
}

void KnownFiles::forget(std::uint64_t identity_hash) {
  const std::uint64_t bit = bit_of(identity_hash);
  const std::uint64_t before = word_of(identity_hash).fetch_and(~bit, std::memory_order_relaxed);
  if ((before & bit) != 0) changes_.fetch_add(1, std::memory_order_relaxed);
}

bool KnownFiles::may_have(std::uint64_t identity_hash) const {
  const std::uint64_t word = words_[identity_hash / kWordBits % words_.size()].load(std::memory_order_relaxed);
  return (word & bit_of(identity_hash)) != 0;
}

}  // namespace headrace::cache
