// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/disk/segment.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

// XXH3 with the widest vectors that the processor has, not those that the oldest one has: a sample of 108 kB from a
// tier takes 30 us of processor time instead of 38 (headrace read --ssd, AVX-512, 2026-11-22).
#ifdef HEADRACE_XXH_X86DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace headrace::cache {
namespace {

using io::Buffer;
using io::CacheMode;

constexpr std::size_t kScanBytes = 1 << 20;  // a multiple of every block size; large enough for any disk's full rate

std::uint32_t blocks_per_segment(const TierLabel& label) {
  return static_cast<std::uint32_t>(label.segment_bytes / kBlockBytes);
}

std::uint64_t header_hash(const SegmentIndexHeader& header, std::uint64_t salt) {
  return XXH3_64bits_withSeed(&header, offsetof(SegmentIndexHeader, hash), salt);
}

bool fits(const IndexedRecord& record, std::uint32_t block_count) {
  return record.first_block < block_count && blocks_of(record.payload_bytes) <= block_count - record.first_block;
}

}  // namespace

std::uint64_t hash_payload(std::span<const std::byte> payload) {
  return XXH3_64bits(payload.data(), payload.size());
}

std::uint64_t trailer_hash(const RecordTrailer& trailer, std::uint64_t salt) {
  return XXH3_64bits_withSeed(&trailer, offsetof(RecordTrailer, hash), salt);
}

IndexedRecord indexed_from(const RecordTrailer& trailer) {
  return {trailer.data_set_key, trailer.name_hash,     trailer.identity_hash,
          trailer.payload_hash, trailer.payload_bytes, trailer.first_block};
}

bool is_trailer_of(const RecordTrailer& trailer, const TierLabel& label, std::uint32_t segment,
                   std::uint32_t end_block) {
  return trailer.magic == RecordTrailer::kMagic && trailer.version == kTierVersion && trailer.segment == segment &&
         trailer.first_block + static_cast<std::uint64_t>(blocks_of(trailer.payload_bytes)) == end_block &&
         trailer.hash == trailer_hash(trailer, label.salt);
}

Status open_segment_file(const TierFolder& folder, Segment& segment, bool writable) {
  const std::string name = segment_name(segment.number);
  const int flags = writable ? O_RDWR | O_CREAT : O_RDONLY;
  auto fd = folder.open_file(name, flags | O_DIRECT);
  if (!fd && fd.error().os_errno == EINVAL) {
    segment.cache_mode = CacheMode::kBuffered;
    fd = folder.open_file(name, flags);
  }
  if (!fd) return io::forward_error(std::move(fd));
  segment.fd = std::move(*fd);
  return {};
}

Status reserve_blocks(const TierFolder& folder, const Segment& segment) {
  const auto bytes = static_cast<off_t>(folder.label().segment_bytes);
  if (::fallocate(segment.fd.get(), 0, 0, bytes) == 0) return {};
  // A file system without fallocate: the space is not promised, and writes may meet a full disk.
  if (errno == EOPNOTSUPP && ::ftruncate(segment.fd.get(), bytes) == 0) return {};
  return io::system_error(errno, fmt::format("reserve {}/{}", folder.path(), segment_name(segment.number)));
}

bool load_segment_index(const TierFolder& folder, Segment& segment) {
  const std::uint32_t block_count = blocks_per_segment(folder.label());
  const std::uint64_t bytes_max = sizeof(SegmentIndexHeader) + std::uint64_t{block_count} * sizeof(IndexedRecord);
  const auto bytes = folder.read_file(segment_index_name(segment.number), bytes_max);
  if (!bytes || bytes->size() < sizeof(SegmentIndexHeader)) return false;
  SegmentIndexHeader header;
  std::memcpy(&header, bytes->data(), sizeof header);
  const std::size_t body = bytes->size() - sizeof header;
  const std::uint64_t salt = folder.label().salt;
  const bool good = header.magic == SegmentIndexHeader::kMagic && header.version == kTierVersion &&
                    header.segment == segment.number && header.hash == header_hash(header, salt) &&
                    header.covered_blocks <= block_count && body == header.record_count * sizeof(IndexedRecord) &&
                    header.records_hash == XXH3_64bits_withSeed(bytes->data() + sizeof header, body, salt);
  if (!good) return false;
  segment.records.resize(header.record_count);
  if (body > 0) std::memcpy(segment.records.data(), bytes->data() + sizeof header, body);
  std::erase_if(segment.records, [&](const IndexedRecord& record) { return !fits(record, block_count); });
  segment.next_block = header.covered_blocks;
  segment.sealed = header.sealed != 0;
  return true;
}

namespace {

// Looks at the end of every block of `bytes`, which begin at `first_block` of the segment.
void find_trailers(const TierLabel& label, Segment& segment, std::span<const std::byte> bytes,
                   std::uint32_t first_block) {
  for (std::size_t end = kBlockBytes; end <= bytes.size(); end += kBlockBytes) {
    RecordTrailer trailer;
    std::memcpy(&trailer, bytes.data() + end - sizeof trailer, sizeof trailer);
    const auto end_block = static_cast<std::uint32_t>(first_block + end / kBlockBytes);
    if (!is_trailer_of(trailer, label, segment.number, end_block)) continue;
    segment.records.push_back(indexed_from(trailer));
    segment.next_block = end_block;
    segment.index_dirty = true;
  }
}

// Where data may begin at or after `offset`: reserved blocks that were never written are skipped.
off_t next_data(int fd, off_t offset, off_t end) {
  const off_t found = ::lseek(fd, offset, SEEK_DATA);
  if (found < 0) return errno == ENXIO ? end : offset;
  return found / static_cast<off_t>(kBlockBytes) * static_cast<off_t>(kBlockBytes);
}

}  // namespace

Status scan_segment(const TierFolder& folder, Segment& segment) {
  HEADRACE_TRY(buffer, Buffer::allocate(kScanBytes));
  const auto end = static_cast<off_t>(folder.label().segment_bytes);
  off_t offset = static_cast<off_t>(segment.next_block) * static_cast<off_t>(kBlockBytes);
  while ((offset = next_data(segment.fd.get(), offset, end)) < end) {
    const ssize_t got = ::pread(segment.fd.get(), buffer.data(), kScanBytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io::system_error(errno, fmt::format("scan {}/{}", folder.path(), segment_name(segment.number)));
    const auto whole = static_cast<std::size_t>(got) / kBlockBytes * kBlockBytes;
    if (whole == 0) break;  // the file was cut off
    find_trailers(folder.label(), segment, {buffer.data(), whole},
                  static_cast<std::uint32_t>(offset / static_cast<off_t>(kBlockBytes)));
    offset += static_cast<off_t>(whole);
  }
  return {};
}

Status sync_segment(const TierFolder& folder, Segment& segment) {
  if (::fdatasync(segment.fd.get()) != 0) {
    return io::system_error(errno, fmt::format("sync {}/{}", folder.path(), segment_name(segment.number)));
  }
  segment.unsynced = false;
  return {};
}

Status save_segment_index(const TierFolder& folder, Segment& segment, bool sync) {
  const std::uint64_t salt = folder.label().salt;
  const auto records = std::as_bytes(std::span(segment.records));
  SegmentIndexHeader header;
  header.segment = segment.number;
  header.record_count = static_cast<std::uint32_t>(segment.records.size());
  header.covered_blocks = segment.writes_in_flight.empty() ? segment.next_block : *segment.writes_in_flight.begin();
  header.sealed = segment.sealed && segment.writes_in_flight.empty() ? 1 : 0;
  header.records_hash = XXH3_64bits_withSeed(records.data(), records.size(), salt);
  header.hash = header_hash(header, salt);
  HEADRACE_TRY_DO(folder.replace_file(segment_index_name(segment.number), bytes_of(header), records, sync));
  segment.index_dirty = !segment.writes_in_flight.empty();
  if (header.sealed != 0) std::vector<IndexedRecord>().swap(segment.records);
  return {};
}

}  // namespace headrace::cache
