// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/disk/cleaner.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace headrace::cache {

using io::Buffer;

Cleaner::Cleaner(SegmentLog& log, TierState& state, io::IoThread& thread) : log_(log), state_(state), thread_(thread) {
  log_.set_cleaning([this] { start(); });
}

void Cleaner::start() {
  from_ = log_.least_useful();
  if (from_ == nullptr) return;
  left_ = log_.records_in(*from_);
  std::sort(left_.begin(), left_.end(), [](const RecordSlot& a, const RecordSlot& b) { return a.block > b.block; });
  log_.pause();
  move_next();
}

void Cleaner::move_next() {
  while (!left_.empty() && state_.takes_records()) {
    slot_ = left_.back();
    left_.pop_back();
    if (log_.find(slot_.key) == slot_ && read_record()) return;
  }
  end(left_.empty());
}

// False: no memory, and the record stays behind.
bool Cleaner::read_record() {
  const std::uint64_t bytes = footprint_bytes(slot_.payload_bytes);
  auto buffer = Buffer::allocate(bytes);
  if (!buffer) return false;
  read_ = io::Operation::read(from_->fd.get(), log_.block_of(slot_) * kBlockBytes, bytes, std::move(*buffer));
  read_.cache_mode = from_->cache_mode;
  read_.wanted = &io::kNobodyWaits;
  read_.context = this;
  // By value, as the type of all callbacks says.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  read_.on_complete = [](io::Operation& operation, Result<std::uint64_t> done) {
    static_cast<Cleaner*>(operation.context)->end_read(done);
  };
  thread_.submit(read_);
  return true;
}

void Cleaner::end_read(const Result<std::uint64_t>& bytes) {
  if (!bytes || !is_intact()) return move_next();
  HEADRACE_ASSERT(read_.data() == read_.buffer.data());  // read from a block's start
  copy_.buffer = std::move(read_.buffer);
  copy_.moved_from = slot_;
  copy_.context = this;
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  copy_.on_done = [](Append& copy, Status status) {
    auto& self = *static_cast<Cleaner*>(copy.context);
    status ? self.move_next() : self.end(false);
  };
  if (!state_.takes_records() || !log_.append_moved(copy_)) end(false);
}

bool Cleaner::is_intact() {
  const std::byte* const data = read_.data();
  RecordTrailer& trailer = copy_.trailer;
  std::memcpy(&trailer, data + footprint_bytes(slot_.payload_bytes) - sizeof trailer, sizeof trailer);
  const std::uint32_t end_block = log_.block_of(slot_) + blocks_of(slot_.payload_bytes);
  return is_trailer_of(trailer, log_.folder().label(), from_->number, end_block) &&
         log_.key_of(trailer.name_hash) == slot_.key && trailer.payload_hash == slot_.payload_hash &&
         hash_payload({data, slot_.payload_bytes}) == slot_.payload_hash;
}

void Cleaner::end(bool nothing_left) {
  const std::shared_ptr<Segment> cleaned = std::move(from_);
  if (nothing_left) log_.remove(*cleaned);
  left_.clear();
  copy_.buffer.reset();
  log_.resume();
}

}  // namespace headrace::cache
