// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/sample_sizes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "headrace/cache/chunk.h"
#include "headrace/io/page_bytes.h"

namespace headrace::cache {
namespace {

std::uint64_t bytes_in_store(std::uint64_t file_bytes) {
  const std::uint32_t last = chunk_count(file_bytes) - 1;
  return last * footprint_bytes(kChunkBytes) + footprint_bytes(chunk_range(file_bytes, last).length);
}

std::uint64_t size_of(std::uint64_t file_bytes, SampleSize what) {
  switch (what) {
    case SampleSize::kContent:
      return file_bytes;
    case SampleSize::kPagesInPageCache:
      return page_cache_units(file_bytes, io::page_bytes());
    case SampleSize::kPagesInStore:
      break;
  }
  return bytes_in_store(file_bytes) / io::kBufferAlignment;
}

}  // namespace

std::uint64_t page_cache_units(std::uint64_t file_bytes, std::uint64_t page_bytes) {
  const std::uint64_t unit_bytes = std::max<std::uint64_t>(page_bytes, io::kBufferAlignment);
  return (file_bytes + unit_bytes - 1) / unit_bytes * (unit_bytes / io::kBufferAlignment);
}

std::vector<std::uint32_t> sample_sizes(const Catalog& catalog, SampleSize what) {
  std::vector<std::uint32_t> sizes(catalog.sample_count());
  for (SampleIndex sample = 0; sample < sizes.size(); ++sample) {
    const std::uint64_t size = size_of(catalog.size_bytes(catalog.sample_entry(sample)), what);
    sizes[sample] = static_cast<std::uint32_t>(std::min<std::uint64_t>(size, kSampleSizeMax));
  }
  return sizes;
}

SampleSizes::SampleSizes(std::vector<std::uint32_t> counts, std::uint64_t unit_bytes)
    : counts_(std::move(counts)),
      unit_bytes_(unit_bytes),
      total_(std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0}) * unit_bytes) {}

SampleSizes sizes_in_pages(const Catalog& catalog, SampleSize what) {
  return SampleSizes(sample_sizes(catalog, what), io::kBufferAlignment);
}

SampleSizes content_sizes(const Catalog& catalog) {
  std::vector<std::uint32_t> bytes = sample_sizes(catalog, SampleSize::kContent);
  const bool fits = std::ranges::find(bytes, kSampleSizeMax) == bytes.end();
  return fits ? SampleSizes(std::move(bytes)) : sizes_in_pages(catalog, SampleSize::kPagesInPageCache);
}

std::uint64_t sample_chunks(const Catalog& catalog) {
  std::uint64_t chunks = 0;
  for (SampleIndex sample = 0; sample < catalog.sample_count(); ++sample) {
    const EntryId entry = catalog.sample_entry(sample);
    if (catalog.is_file(entry)) chunks += chunk_count(catalog.size_bytes(entry));
  }
  return chunks;
}

}  // namespace headrace::cache
