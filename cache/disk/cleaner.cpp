// SPDX-License-Identifier: Apache-2.0
// Cleaning: a tier that evicts single records has dead ones in every segment. When the last free segment is taken into
// use, what still matters of the segment with the least of it moves there, record by record, and that segment is free
// again. What may be held (evicting_bytes()) leaves so much dead that at most seven eighths of a segment are moved for
// it.
//
// New records wait meanwhile. Everything here runs on the tier's I/O thread.
#include <algorithm>
#include <cstring>
#include <utility>

#include "headrace/cache/disk/disk_tier.h"

namespace headrace::cache {

using io::Buffer;

void DiskTier::start_cleaning() {
  std::shared_ptr<Segment> worst = least_useful();
  if (worst == nullptr) return;
  cleaning_ = std::make_unique<Cleaning>();
  cleaning_->left = index_.slots_in(worst->place * blocks_per_segment_, (worst->place + 1) * blocks_per_segment_);
  std::sort(cleaning_->left.begin(), cleaning_->left.end(),
            [](const RecordSlot& a, const RecordSlot& b) { return a.block > b.block; });
  cleaning_->from = std::move(worst);
  writes_in_flight_ += 1;  // closing and flushing wait for it
  move_next();
}

void DiskTier::move_next() {
  Cleaning& cleaning = *cleaning_;
  while (!cleaning.left.empty() && state_.load() == State::kOk) {
    cleaning.slot = cleaning.left.back();
    cleaning.left.pop_back();
    if (index_.find(cleaning.slot.key) == cleaning.slot && read_for_moving()) return;
  }
  end_cleaning();
}

// False: no memory, and the record stays behind.
bool DiskTier::read_for_moving() {
  Cleaning& cleaning = *cleaning_;
  const std::uint64_t bytes = footprint_bytes(cleaning.slot.payload_bytes);
  auto buffer = Buffer::allocate(bytes);
  if (!buffer) return false;
  const std::uint64_t offset = (cleaning.slot.block % blocks_per_segment_) * kBlockBytes;
  cleaning.operation = io::Operation::read(cleaning.from->fd.get(), offset, bytes, std::move(*buffer));
  cleaning.operation.cache_mode = cleaning.from->cache_mode;
  cleaning.operation.context = this;
  cleaning.operation.on_complete = [](io::Operation& operation, Result<std::uint64_t> done) {
    auto& self = *static_cast<DiskTier*>(operation.context);
    if (!done || !self.is_intact_for_moving()) return self.move_next();
    self.write_moved();
  };
  thread_->submit(cleaning.operation);
  return true;
}

bool DiskTier::is_intact_for_moving() {
  Cleaning& cleaning = *cleaning_;
  const std::byte* const data = cleaning.operation.data();
  const std::size_t record_bytes = footprint_bytes(cleaning.slot.payload_bytes);
  std::memcpy(&cleaning.trailer, data + record_bytes - sizeof cleaning.trailer, sizeof cleaning.trailer);
  const std::uint32_t end_block = cleaning.slot.block % blocks_per_segment_ + blocks_of(cleaning.slot.payload_bytes);
  return is_trailer_of(cleaning.trailer, folder_.label(), cleaning.from->number, end_block) &&
         cleaning.trailer.data_set_key == options_.data_set.key &&
         cleaning.trailer.payload_hash == cleaning.slot.payload_hash &&
         hash_payload({data, cleaning.slot.payload_bytes}) == cleaning.slot.payload_hash;
}

void DiskTier::write_moved() {
  Cleaning& cleaning = *cleaning_;
  const std::uint32_t blocks = blocks_of(cleaning.slot.payload_bytes);
  if (state_.load() != State::kOk || !has_room(blocks)) return end_cleaning();
  cleaning.first_block = take_blocks(blocks);
  cleaning.trailer.segment = active_->number;
  cleaning.trailer.first_block = cleaning.first_block;
  cleaning.trailer.hash = trailer_hash(cleaning.trailer, folder_.label().salt);
  HEADRACE_ASSERT(cleaning.operation.data() == cleaning.operation.buffer.data());  // read from a block's start
  Buffer buffer = std::move(cleaning.operation.buffer);
  const std::size_t record_bytes = blocks * kBlockBytes;
  std::memcpy(buffer.data() + record_bytes - sizeof cleaning.trailer, &cleaning.trailer, sizeof cleaning.trailer);
  buffer.set_size(record_bytes);
  cleaning.operation = io::Operation::write(active_->fd.get(), cleaning.first_block * kBlockBytes, std::move(buffer));
  cleaning.operation.cache_mode = active_->cache_mode;
  cleaning.operation.context = this;
  cleaning.operation.on_complete = [](io::Operation& operation, Result<std::uint64_t> done) {
    static_cast<DiskTier*>(operation.context)->end_move(std::move(done));
  };
  thread_->submit(cleaning.operation);
}

void DiskTier::end_move(Result<std::uint64_t> bytes) {
  Cleaning& cleaning = *cleaning_;
  Segment& to = *active_;
  to.writes_in_flight.erase(to.writes_in_flight.find(cleaning.first_block));
  to.unsynced = true;
  if (!bytes) {
    stop_admission(bytes.error());
    return end_cleaning();
  }
  moved_bytes_.fetch_add(*bytes, std::memory_order_relaxed);
  const RecordTrailer& trailer = cleaning.trailer;
  to.records.push_back({trailer.data_set_key, trailer.name_hash, trailer.identity_hash, trailer.payload_hash,
                        trailer.payload_bytes, trailer.first_block});
  RecordSlot moved = cleaning.slot;
  moved.block = to.place * blocks_per_segment_ + cleaning.first_block;
  if (index_.replace(cleaning.slot, moved)) {  // else it was evicted meanwhile
    const auto useful = static_cast<std::int64_t>(footprint_bytes(moved.payload_bytes));
    to.useful_bytes.fetch_add(useful);
    cleaning.from->useful_bytes.fetch_sub(useful);
  }
  move_next();
}

void DiskTier::end_cleaning() {
  const std::unique_ptr<Cleaning> ended = std::move(cleaning_);
  if (ended->left.empty()) remove_segment(ended->from->place);
  writes_in_flight_ -= 1;
  if (writes_in_flight_ == 0) return run_quiet_tasks();
  if (when_quiet_.empty()) begin_held_back();
}

}  // namespace headrace::cache
