// SPDX-License-Identifier: Apache-2.0
// One chunk on its way into memory: a part of the budget, then the fastest tier that has it, then the source.
//
// Ownership: its own; deletes itself once the waiters are answered.
// Thread-safety: one step at a time, each on the thread where the step before completed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "headrace/cache/disk/disk_tier.h"
#include "headrace/cache/store/store_impl.h"

namespace headrace::cache {

class Fetch final : public MemoryRequest {
 public:
  // `holding` is claimed, with the fetch's pin.
  Fetch(StoreImpl& store, Holding& holding, const Identity& identity, const ChunkRequest& request);
  void start() { store_.memory_.request(*this); }

  void granted() override;
  void denied(io::Error error) override { fail(error); }

 private:
  void read_next_tier();
  void on_tier_read(Status status);
  void read_source();
  void finish(io::Buffer buffer, std::byte* data, TierKind from);
  void fail(const io::Error& error);

  StoreImpl& store_;
  Holding& holding_;
  const Identity identity_;
  const bool for_warm_job_;           // which copies to a tier itself, to hear of the outcome
  const std::thread::id waits_here_;  // who may wait for the source; none: nobody
  const ChunkRange range_;
  std::string path_;
  RecordId record_;
  std::size_t next_tier_ = 0;  // the first that was not asked; those before it may take a copy
  DiskRead disk_read_;
  SourceRead source_read_;
};

}  // namespace headrace::cache
