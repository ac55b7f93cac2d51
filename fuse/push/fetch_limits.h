// SPDX-License-Identifier: Apache-2.0
// How much may be on its way from the store to the page cache at a time.
//
//   FetchLimits limits(store.stats(), false, 0);
//   if (limits.has_room(bytes, now)) { limits.begin(bytes, source_bytes, now); fetch(); }   // later: end(bytes)
//
// Thread-safety: none; one owner.
#pragma once

#include <cstdint>

#include "headrace/cache/store.h"
#include "headrace/fuse/push/source_rate.h"

namespace headrace::fuse {

class FetchLimits {
 public:
  // `others_bytes`: of the store's memory, what another part of the mount may take.
  FetchLimits(const cache::StoreStats& store, bool of_records, std::uint64_t others_bytes);

  // Whether one that takes so many bytes of the store's memory may begin. One alone always may.
  [[nodiscard]] bool has_room(std::uint64_t bytes, SourceRate::Time now) const {
    if (count_ == count_max_ || !rate_.is_due(now)) return false;
    return count_ == 0 || bytes_ + bytes <= bytes_max_;
  }
  void begin(std::uint64_t bytes, std::uint64_t source_bytes, SourceRate::Time now) {
    ++count_;
    bytes_ += bytes;
    rate_.charge(source_bytes, now);
  }
  void end(std::uint64_t bytes) {
    --count_;
    bytes_ -= bytes;
  }
  [[nodiscard]] bool is_idle() const { return count_ == 0; }
  [[nodiscard]] SourceRate& rate() { return rate_; }
  [[nodiscard]] const SourceRate& rate() const { return rate_; }

 private:
  const std::uint64_t count_max_;
  const std::uint64_t bytes_max_;  // of the store's memory
  std::uint64_t count_ = 0;
  std::uint64_t bytes_ = 0;
  SourceRate rate_;
};

}  // namespace headrace::fuse
