// SPDX-License-Identifier: Apache-2.0
// A small read in the middle of a large file: the pieces that it touches come from a disk tier, not the whole chunk.
// What no tier has in pieces is read as ever.
//
// Ownership: its own; deletes itself once answered.
// Thread-safety: one step at a time, each on the thread where the step before completed.
#pragma once

#include <cstddef>

#include "headrace/cache/disk/disk_tier.h"
#include "headrace/cache/store/store_impl.h"

namespace headrace::cache {

class PartRead final : public MemoryRequest {
 public:
  PartRead(StoreImpl& store, const ChunkRequest& request, const RecordId& record, ReadCallback done);
  void start() { store_.memory_.request(*this); }

  void granted() override;
  void denied(io::Error error) override;

 private:
  void read_next_tier();
  void on_tier_read(const Status& status);
  void finish();
  void read_chunk_instead();

  StoreImpl& store_;
  const ChunkRequest request_;
  ReadCallback done_;
  Holding* target_ = nullptr;  // never listed; its only pin becomes the caller's view
  std::size_t next_tier_ = 0;
  DiskPart part_;
};

}  // namespace headrace::cache
