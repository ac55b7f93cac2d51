// SPDX-License-Identifier: Apache-2.0
// Reading a part of a record: first its last block, which has the hashes of its pieces, then the pieces that the part
// touches. 64 KiB of a chunk of 4 MiB are 68 KiB from the disk that way.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "headrace/cache/disk/disk_tier.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;

std::uint64_t first_piece(const ChunkRange& range) {
  return range.offset / kPieceBytes;
}
std::uint64_t end_piece(const ChunkRange& range) {
  return (range.offset + range.length + kPieceBytes - 1) / kPieceBytes;
}

}  // namespace

std::uint64_t part_buffer_bytes(const ChunkRange& range) {
  return std::max<std::uint64_t>(kBlockBytes, (end_piece(range) - first_piece(range)) * kPieceBytes);
}

bool DiskTier::read_part(DiskPart& part) {
  std::optional<Found> found = look_up(part.record);
  if (!found || !has_pieces(found->slot.payload_bytes)) return false;
  if (part.range.offset + part.range.length > found->slot.payload_bytes) return false;  // the file changed just now
  part.tier = this;
  part.slot = found->slot;
  part.segment = std::move(found->segment);
  const std::uint64_t last_block = part.slot.block % blocks_per_segment_ + blocks_of(part.slot.payload_bytes) - 1;
  submit_part(part, {last_block * kBlockBytes, kBlockBytes}, [](io::Operation& operation, Result<std::uint64_t> bytes) {
    DiskPart& self = *static_cast<DiskPart*>(operation.context);
    self.tier->end_read_of_hashes(self, std::move(bytes));
  });
  return true;
}

void DiskTier::submit_part(DiskPart& part, const ChunkRange& in_segment,
                           void (*on_complete)(io::Operation& operation, Result<std::uint64_t> bytes)) {
  part.operation =
      io::Operation::read(part.segment->fd.get(), in_segment.offset, in_segment.length, std::move(part.buffer));
  part.operation.cache_mode = part.segment->cache_mode;
  part.operation.context = &part;
  part.operation.on_complete = on_complete;
  thread_->submit(part.operation);
}

void DiskTier::end_part(DiskPart& part, const Status& status) {
  part.buffer = std::move(part.operation.buffer);
  part.segment.reset();
  part.on_done(part, status);
}

void DiskTier::end_read_of_hashes(DiskPart& part, Result<std::uint64_t> bytes) {
  if (!bytes) {
    note_read_error(bytes.error());
    return end_part(part, io::forward_error(std::move(bytes)));
  }
  const std::uint32_t block = part.slot.block % blocks_per_segment_;
  const std::uint32_t end_block = block + blocks_of(part.slot.payload_bytes);
  RecordTrailer trailer;
  std::memcpy(&trailer, part.operation.data() + kBlockBytes - sizeof trailer, sizeof trailer);
  const std::uint64_t table_bytes = piece_count(part.slot.payload_bytes) * sizeof(std::uint64_t);
  const std::byte* const table = part.operation.data() + kBlockBytes - sizeof trailer - table_bytes;
  const std::uint64_t salt = folder_.label().salt;
  const bool good = *bytes == kBlockBytes && is_trailer_of(trailer, folder_.label(), part.segment->number, end_block) &&
                    trailer.payload_hash == part.slot.payload_hash && trailer.pieces_hash != 0 &&
                    trailer.pieces_hash == XXH3_64bits_withSeed(table, table_bytes, salt);
  if (!good) {  // written by an earlier version, damaged, or another segment is there now: the whole record will tell
    return end_part(part, io::make_error(ErrorCode::kUnsupported, "pieces in tier " + folder_.path()));
  }
  const std::uint64_t first = first_piece(part.range);
  part.hashes.resize(end_piece(part.range) - first);
  std::memcpy(part.hashes.data(), table + first * sizeof(std::uint64_t), part.hashes.size() * sizeof(std::uint64_t));
  part.buffer = std::move(part.operation.buffer);
  const std::uint64_t offset = first * kPieceBytes;
  const std::uint64_t end = std::min<std::uint64_t>(end_piece(part.range) * kPieceBytes, part.slot.payload_bytes);
  submit_part(part, {block * kBlockBytes + offset, end - offset},
              [](io::Operation& operation, Result<std::uint64_t> done) {
                DiskPart& self = *static_cast<DiskPart*>(operation.context);
                self.tier->end_read_of_pieces(self, std::move(done));
              });
}

void DiskTier::end_read_of_pieces(DiskPart& part, Result<std::uint64_t> bytes) {
  if (!bytes) {
    note_read_error(bytes.error());
    return end_part(part, io::forward_error(std::move(bytes)));
  }
  read_errors_in_a_row_.store(0, std::memory_order_relaxed);
  std::span<const std::byte> rest(part.operation.data(), *bytes);
  bool intact = *bytes == part.operation.length_bytes;
  for (const std::uint64_t hash : part.hashes) {
    const auto piece = rest.first(std::min<std::size_t>(kPieceBytes, rest.size()));
    intact = intact && hash_payload(piece) == hash;
    rest = rest.subspan(piece.size());
  }
  if (!intact) {
    drop_record(part.slot, corrupt_);
    return end_part(part, io::make_error(ErrorCode::kCorrupt, "read from tier " + folder_.path()));
  }
  hits_.fetch_add(1, std::memory_order_relaxed);
  hit_bytes_.fetch_add(*bytes, std::memory_order_relaxed);
  part.data = part.operation.data() + part.range.offset % kPieceBytes;
  end_part(part, {});
}

}  // namespace headrace::cache
