// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/disk/cleaner.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace headrace::cache {
namespace {

using io::Buffer;

// Memory that no budget counts. Pieces of large files are 4 to 8 MiB, and two of them keep any disk busy.
constexpr std::uint64_t kBytesUnderWayMax = 16ULL << 20;

}  // namespace

Cleaner::Cleaner(SegmentLog& log, TierState& state, io::IoThread& thread) : log_(log), state_(state), thread_(thread) {
  for (Move& move : moves_) move.cleaner = this;
  log_.set_cleaning([this] { start(); });
}

void Cleaner::start() {
  from_ = log_.least_useful();
  if (from_ == nullptr) return;
  left_ = log_.records_in(*from_);
  std::sort(left_.begin(), left_.end(), [](const RecordSlot& a, const RecordSlot& b) { return a.block > b.block; });
  is_cut_short_ = false;
  log_.pause();
  go_on();
}

// Where the disk has just been closed an operation ends within the call that begins it, and this runs once more in
// there.
void Cleaner::go_on() {
  while (!left_.empty() && !is_cut_short_ && has_room_for(left_.back())) {
    const RecordSlot slot = left_.back();
    left_.pop_back();
    if (!state_.takes_records()) {
      is_cut_short_ = true;
    } else if (log_.is_of_use(slot) && log_.find(slot.key) == slot) {  // others go with the segment
      static_cast<void>(begin(*idle_move(), slot));
    }
  }
  if (under_way_ == 0 && from_ != nullptr) end_cleaning();
}

bool Cleaner::has_room_for(const RecordSlot& slot) const {
  if (under_way_ == 0) return true;
  return under_way_ < kMovesMax && bytes_under_way_ + footprint_bytes(slot.payload_bytes) <= kBytesUnderWayMax;
}

Cleaner::Move* Cleaner::idle_move() {
  return std::find_if(moves_.begin(), moves_.end(), [](const Move& move) { return !move.is_under_way; });
}

// False: no memory, and the record stays behind.
bool Cleaner::begin(Move& move, const RecordSlot& slot) {
  const std::uint64_t bytes = footprint_bytes(slot.payload_bytes);
  auto buffer = Buffer::allocate(bytes);
  if (!buffer) return false;
  move.is_under_way = true;
  move.slot = slot;
  under_way_ += 1;
  bytes_under_way_ += bytes;
  move.read = io::Operation::read(from_->fd.get(), log_.block_of(slot) * kBlockBytes, bytes, std::move(*buffer));
  move.read.cache_mode = from_->cache_mode;
  move.read.wanted = &io::kNobodyWaits;
  move.read.context = &move;
  // By value, as the type of all callbacks says.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  move.read.on_complete = [](io::Operation& operation, Result<std::uint64_t> done) {
    Move& self = *static_cast<Move*>(operation.context);
    self.cleaner->end_read(self, done);
  };
  thread_.submit(move.read);
  return true;
}

void Cleaner::end_read(Move& move, const Result<std::uint64_t>& bytes) {
  if (!bytes || !take_intact(move)) return end(move);
  HEADRACE_ASSERT(move.read.data() == move.read.buffer.data());  // read from a block's start
  move.copy.buffer = std::move(move.read.buffer);
  move.copy.moved_from = move.slot;
  move.copy.context = &move;
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  move.copy.on_done = [](Append& copy, Status status) {
    Move& self = *static_cast<Move*>(copy.context);
    if (!status) self.cleaner->is_cut_short_ = true;
    self.cleaner->end(self);
  };
  if (!is_cut_short_ && state_.takes_records() && log_.append_moved(move.copy)) return;
  is_cut_short_ = true;
  end(move);
}

bool Cleaner::take_intact(Move& move) const {
  const std::byte* const data = move.read.data();
  const RecordSlot& slot = move.slot;
  RecordTrailer& trailer = move.copy.trailer;
  std::memcpy(&trailer, data + footprint_bytes(slot.payload_bytes) - sizeof trailer, sizeof trailer);
  const std::uint32_t end_block = log_.block_of(slot) + blocks_of(slot.payload_bytes);
  return is_trailer_of(trailer, log_.folder().label(), from_->number, end_block) &&
         log_.key_of(trailer.name_hash) == slot.key && trailer.payload_hash == slot.payload_hash &&
         hash_payload({data, slot.payload_bytes}) == slot.payload_hash;
}

void Cleaner::end(Move& move) {
  move.read.buffer.reset();
  move.copy.buffer.reset();
  move.is_under_way = false;
  under_way_ -= 1;
  bytes_under_way_ -= footprint_bytes(move.slot.payload_bytes);
  go_on();
}

void Cleaner::end_cleaning() {
  const std::shared_ptr<Segment> cleaned = std::move(from_);
  const bool nothing_left = left_.empty() && !is_cut_short_;
  left_.clear();
  if (nothing_left) log_.remove(*cleaned);
  log_.resume();
}

}  // namespace headrace::cache
