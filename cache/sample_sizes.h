// SPDX-License-Identifier: Apache-2.0
// How much room each sample takes, by where it lies. In bytes, unless the kind says otherwise.
//
//   const SampleSizes sizes = sizes_in_pages(catalog, SampleSize::kPagesInStore);
//   ReadAhead plan(order, sizes, ...);
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "headrace/cache/catalog.h"

namespace headrace::cache {

enum class SampleSize : std::uint8_t {
  kContent,           // the file's bytes
  kPagesInPageCache,  // in units of 4096 bytes, so that a file of 100 GB counts in full; as the next
  kPagesInStore,      // of the RAM budget or, as records, of a disk tier: each chunk and its trailer in whole pages
};

// What a file takes of the page cache, in units of 4096 bytes: whole pages, which have 16 or 64 KiB on some machines.
[[nodiscard]] std::uint64_t page_cache_units(std::uint64_t file_bytes, std::uint64_t page_bytes);

// To read a sample of that size takes longer than the way to it: little has to be on its way at one time.
inline constexpr std::uint64_t kLargeSampleBytes = std::uint64_t{1} << 20;

// What cannot be counted in 32 bits counts as kSampleSizeMax.
inline constexpr std::uint32_t kSampleSizeMax = UINT32_MAX;

[[nodiscard]] std::vector<std::uint32_t> sample_sizes(const Catalog& catalog, SampleSize what);

// Bytes of each sample, in four bytes a sample: as counts of a unit. In pages, files of 16 TiB count in full.
// Thread-safety: as a plain value.
class SampleSizes {
 public:
  explicit SampleSizes(std::vector<std::uint32_t> counts, std::uint64_t unit_bytes = 1);

  [[nodiscard]] std::uint64_t operator[](SampleIndex sample) const { return counts_[sample] * unit_bytes_; }
  [[nodiscard]] std::size_t size() const { return counts_.size(); }
  [[nodiscard]] bool empty() const { return counts_.empty(); }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  // For who counts in 32 bits: the sizes in units of unit_bytes().
  [[nodiscard]] const std::vector<std::uint32_t>& counts() const { return counts_; }
  [[nodiscard]] std::uint64_t unit_bytes() const { return unit_bytes_; }

 private:
  std::vector<std::uint32_t> counts_;
  std::uint64_t unit_bytes_;
  std::uint64_t total_;
};

// `what`: one that counts pages.
[[nodiscard]] SampleSizes sizes_in_pages(const Catalog& catalog, SampleSize what);

// The files' bytes; where one has 4 GiB or more, those of their pages.
[[nodiscard]] SampleSizes content_sizes(const Catalog& catalog);

// How many reads of the source an epoch takes that finds nothing in a tier.
[[nodiscard]] std::uint64_t sample_chunks(const Catalog& catalog);

}  // namespace headrace::cache
