// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/fetch_limits.h"

#include <algorithm>

#include "headrace/cache/chunk.h"

namespace headrace::fuse {

namespace {

// 128 fetches keep a device's queue full and hide 20 ms of latency at 5 000 samples/s; 64 MiB bounds what they hold.
constexpr std::uint64_t kFetchesMax = 128;
constexpr std::uint64_t kFetchBytesMax = 64 << 20;
// A bucket answers after 20 to 100 ms, however many requests are under way, so that its rate is what is in flight.
// Its client sends no more of them than bring more, and the store's own memory bounds what they hold: 256 MiB at most.
constexpr std::uint64_t kBucketFetchBytesMax = 256 << 20;
// A record is small, and a source that takes 5 ms for each gives 20 000 a second of 100 at a time.
constexpr std::uint64_t kRecordFetchesMax = 512;
// What fetches leave of the store's memory: room for a READ of any file. For a notification may wait for a page that
// the kernel has locked for a READ, and that READ would wait for the memory of what is to be pushed next.
constexpr std::uint64_t kReadReserveBytes = cache::footprint_bytes(cache::kWholeFileBytesMax);

std::uint64_t fetches_max(const cache::StoreStats& store, bool of_records) {
  const std::uint64_t most = of_records ? kRecordFetchesMax : kFetchesMax;
  return store.bucket ? std::max<std::uint64_t>(most, store.engine.queue_depth_max) : most;
}

std::uint64_t fetch_bytes_max(const cache::StoreStats& store, std::uint64_t others_bytes) {
  const std::uint64_t most = store.bucket ? kBucketFetchBytesMax : kFetchBytesMax;
  const std::uint64_t ram_bytes = store.tiers.front().budget_bytes;
  if (ram_bytes == 0) return most;  // no limit
  return std::min(most, ram_bytes - std::min(ram_bytes, kReadReserveBytes + others_bytes));
}

}  // namespace

FetchLimits::FetchLimits(const cache::StoreStats& store, bool of_records, std::uint64_t others_bytes)
    : count_max_(fetches_max(store, of_records)), bytes_max_(fetch_bytes_max(store, others_bytes)) {}

}  // namespace headrace::fuse
