// SPDX-License-Identifier: Apache-2.0
// How much room each sample takes, by where it lies. In bytes, unless the kind says otherwise.
//
//   std::vector<std::uint32_t> sizes = sample_sizes(catalog, SampleSize::kInStore);
//   ReadAhead plan(order, sizes, ...);
//
// Pure function.
#pragma once

#include <cstdint>
#include <vector>

#include "headrace/cache/catalog.h"

namespace headrace::cache {

enum class SampleSize : std::uint8_t {
  kContent,      // the file's bytes
  kInPageCache,  // in whole pages
  kInStore,      // of the RAM budget or, as records, of a disk tier: each chunk and its trailer in whole pages
  kPagesInStore  // the same, counted in pages: a file of 100 GB counts in full
};

// What cannot be counted in 32 bits counts as kSampleSizeMax.
inline constexpr std::uint32_t kSampleSizeMax = UINT32_MAX;

[[nodiscard]] std::vector<std::uint32_t> sample_sizes(const Catalog& catalog, SampleSize what);

}  // namespace headrace::cache
