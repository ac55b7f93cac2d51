// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/internal/buffer_arena.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>

#include <sys/mman.h>

#include "headrace/io/page_bytes.h"

namespace headrace::io {
namespace {

constexpr std::size_t kHugePageBytes = 2 << 20;
// To give memory back and fault it in again costs about as much as to read it. So it happens only when this much, and a
// share of what is in use, was freed.
constexpr std::size_t kGiveBackBytesMin = 64 << 20;
constexpr std::size_t kGiveBackShare = 4;  // a quarter of what is in use

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Pages that the kernel assembles by itself (transparent huge pages) need memory that starts at a multiple of their
// size: maps one page more and gives back what sticks out. nullptr, with errno: no address space left.
std::byte* map_aligned(std::size_t bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const mapped = ::mmap(nullptr, bytes + kHugePageBytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const memory = static_cast<std::byte*>(mapped);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::size_t head = round_up(address, kHugePageBytes) - address;
  if (head > 0) ::munmap(memory, head);
  ::munmap(memory + head + bytes, kHugePageBytes - head);
  return memory + head;
}

}  // namespace

Result<std::shared_ptr<BufferArena>> BufferArena::create(const BufferArenaOptions& options) {
  if (options.bytes == 0) return make_error(ErrorCode::kInvalidArgument, "buffer arena of 0 bytes");
  if (options.bytes > SIZE_MAX / 2) return system_error(ENOMEM, "buffer arena");
  const std::size_t bytes = round_up(options.bytes, kHugePageBytes);
  std::byte* const data = map_aligned(bytes);
  if (data == nullptr) return system_error(errno, "buffer arena");
  const std::size_t huge_bytes = std::min(bytes, options.huge_bytes / kHugePageBytes * kHugePageBytes);
  if (huge_bytes > 0) ::madvise(data, huge_bytes, MADV_HUGEPAGE);  // refused: pages of 4 KiB, which only cost more
  return std::shared_ptr<BufferArena>(new BufferArena(data, bytes));
}

BufferArena::BufferArena(std::byte* data, std::size_t size) : data_(data), size_(size) {
  MutexLock lock(mutex_);
  insert_free(0, size);
}

BufferArena::~BufferArena() {
  HEADRACE_ASSERT(free_bytes() == size_);  // a buffer outlived its arena
  ::munmap(data_, size_);
}

Result<Buffer> BufferArena::allocate(std::size_t capacity_bytes) {
  if (capacity_bytes == 0) return Buffer();
  if (capacity_bytes > size_) return Buffer::allocate_from_heap(capacity_bytes);
  const std::size_t bytes = round_up(capacity_bytes, kBufferAlignment);
  MutexLock lock(mutex_);
  const auto found = free_by_size_.lower_bound({bytes, 0});
  if (found == free_by_size_.end()) {
    lock.unlock();
    return Buffer::allocate_from_heap(capacity_bytes);
  }
  const auto [free_bytes, offset] = *found;
  erase_free(offset, free_bytes);
  if (free_bytes > bytes) insert_free(offset + bytes, free_bytes - bytes);
  used_and_free_bytes_ -= std::min(used_and_free_bytes_, bytes);
  return Buffer(*this, data_ + offset, bytes);
}

void BufferArena::provide(std::size_t bytes) const {
  provide_pages(data_, std::min(size_, round_up(bytes, kHugePageBytes)));
}

void BufferArena::release(std::byte* data, std::size_t bytes) {
  auto offset = static_cast<std::size_t>(data - data_);
  MutexLock lock(mutex_);
  used_and_free_bytes_ += bytes;
  const auto next = free_by_offset_.lower_bound(offset);
  if (next != free_by_offset_.begin()) {
    const auto [before, before_bytes] = *std::prev(next);
    if (before + before_bytes == offset) {
      erase_free(before, before_bytes);
      offset = before;
      bytes += before_bytes;
    }
  }
  if (next != free_by_offset_.end() && next->first == offset + bytes) {
    const auto [after, after_bytes] = *next;
    erase_free(after, after_bytes);
    bytes += after_bytes;
  }
  insert_free(offset, bytes);
  const std::size_t in_use = size_ - free_bytes_;
  if (used_and_free_bytes_ > std::max(kGiveBackBytesMin, in_use / kGiveBackShare)) give_back_free();
}

void BufferArena::give_back_free() {
  used_and_free_bytes_ = 0;
  for (const auto& [offset, bytes] : free_by_offset_) {
    const std::size_t begin = round_up(offset, kHugePageBytes);
    const std::size_t end = (offset + bytes) / kHugePageBytes * kHugePageBytes;
    if (begin < end) ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
  }
}

void BufferArena::insert_free(std::size_t offset, std::size_t bytes) {
  free_by_offset_.emplace(offset, bytes);
  free_by_size_.emplace(bytes, offset);
  free_bytes_ += bytes;
}

void BufferArena::erase_free(std::size_t offset, std::size_t bytes) {
  free_by_offset_.erase(offset);
  free_by_size_.erase({bytes, offset});
  free_bytes_ -= bytes;
}

std::size_t BufferArena::free_bytes() const {
  MutexLock lock(mutex_);
  return free_bytes_;
}

}  // namespace headrace::io
