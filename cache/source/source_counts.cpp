// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/source_counts.h"

#include <bit>

#include <fmt/format.h>

#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

using io::Error;
using io::ErrorCode;
using io::MutexLock;

// Paths remembered so that each is logged once; beyond these, stale files are only counted.
constexpr std::size_t kStalePathsMax = 1024;

}  // namespace

void SourceCounts::note_success(std::uint64_t bytes) {
  if (failures_in_a_row_.load(std::memory_order_relaxed) > 0) {
    const std::uint64_t failed = failures_in_a_row_.exchange(0);
    if (failed > 0) io::log_info("source {}: reads work again after {} failures", name_, failed);
  }
  if (bytes == 0) return;
  reads_.fetch_add(1, std::memory_order_relaxed);
  read_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void SourceCounts::note_failure(const Error& error) {
  if (error.code == ErrorCode::kCancelled) return;
  errors_.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t in_a_row = failures_in_a_row_.fetch_add(1) + 1;
  if (!std::has_single_bit(in_a_row)) return;  // the 1st, 2nd, 4th, 8th ...
  io::log_warning("source {}: {} ({} reads failed in a row)", name_, error.message(), in_a_row);
  MutexLock lock(mutex_);
  last_failure_ = error.message();
}

Error SourceCounts::note_stale(const char* path) {
  errors_.fetch_add(1, std::memory_order_relaxed);
  Error error{ErrorCode::kStale, 0, fmt::format("read {}: the file has changed", path)};
  MutexLock lock(mutex_);
  const bool first = stale_paths_.size() < kStalePathsMax && stale_paths_.insert(path).second;
  lock.unlock();
  if (first) io::log_warning("source {}: {}", name_, error.message());
  return error;
}

TierStats SourceCounts::stats() const {
  TierStats stats;
  stats.kind = TierKind::kSource;
  stats.path = name_;
  stats.hits = reads_.load(std::memory_order_relaxed);
  stats.hit_bytes = read_bytes_.load(std::memory_order_relaxed);
  stats.errors = errors_.load(std::memory_order_relaxed);
  stats.state = "ok";
  if (failures_in_a_row_.load() > 0) {
    MutexLock lock(mutex_);
    stats.state = "failing: " + last_failure_;
  }
  return stats;
}

}  // namespace headrace::cache
