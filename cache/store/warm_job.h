// SPDX-License-Identifier: Apache-2.0
// Ensures that a disk tier holds a file, chunk after chunk.
//
// Ownership: its own; deletes itself once done.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "headrace/cache/store/store_impl.h"

namespace headrace::cache {

class WarmJob {
 public:
  WarmJob(StoreImpl& store, EntryId entry, const Identity& identity, std::function<void(Status)> done);
  // Deals with the next chunk that no tier holds; any thread, one at a time.
  void run();

 private:
  [[nodiscard]] DiskTier* tier_for(std::uint64_t payload_bytes) const;
  void on_read(Result<View> view);
  void end(Status status);

  StoreImpl& store_;
  const EntryId entry_;
  const Identity identity_;
  const std::string path_;
  const std::function<void(Status)> done_;
  std::uint32_t chunk_ = 0;
  RecordId record_;
};

}  // namespace headrace::cache
