// SPDX-License-Identifier: Apache-2.0
// A read that spans chunks: fetches them side by side and copies their parts into one buffer.
//
// Ownership: its own; deletes itself once answered.
#pragma once

#include <atomic>
#include <cstdint>

#include "headrace/cache/store/store_impl.h"

namespace headrace::cache {

class GatheredRead final : public MemoryRequest {
 public:
  GatheredRead(StoreImpl& store, EntryId entry, std::uint64_t file_bytes, ChunkRange span, ReadHint hint, bool ranged,
               ReadCallback done);
  void start();

  void granted() override;
  void denied(io::Error error) override;

 private:
  void start_chunk();
  void on_chunk(ChunkRange part, Result<View> view);
  void on_event();
  void finish();

  StoreImpl& store_;
  const EntryId entry_;
  const std::uint64_t file_bytes_;
  const ChunkRange span_;
  const ReadHint hint_;
  const bool ranged_;
  const ReadCallback done_;
  Holding* target_ = nullptr;  // never listed; its only pin becomes the caller's view

  // Chunks that ended and are not dealt with yet. Whoever raises it from 0 deals with all of them, alone.
  std::atomic<std::uint32_t> events_ = 0;
  std::uint32_t running_ = 0;     // fetches whose event is not dealt with
  std::uint32_t next_chunk_ = 0;  // the first not started
  std::uint32_t last_chunk_ = 0;
  std::atomic<bool> failed_ = false;
  io::Error error_;  // written once, by whoever raised failed_
  std::atomic<TierKind> slowest_ = TierKind::kRam;
};

}  // namespace headrace::cache
