// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/buffer.h"

#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include <unistd.h>

#include "headrace/io/internal/buffer_arena.h"
#include "headrace/io/page_bytes.h"

namespace headrace::io {
namespace {

// Buffers in flight and read ahead fit in here and are used again and again. What is kept for long lies behind them and
// is written once: to read 435 MB into a RAM tier took 1.0 s of processor time with huge pages on a virtual machine,
// and 0.4 s without them (headrace read, Linux 6.18, 2026-11-20).
constexpr std::size_t kHugeBytes = 128 << 20;

// Has as much address space as the machine has memory. It is never destroyed, because buffers in static storage may
// outlive everything else. nullptr where the address space cannot be had.
BufferArena* common_arena() {
#if defined(__SANITIZE_ADDRESS__)
  return nullptr;  // the sanitizer watches the heap only
#else
  static const auto* const arena = new Result<std::shared_ptr<BufferArena> >(BufferArena::create(
      {.bytes = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * page_bytes(), .huge_bytes = kHugeBytes}));
  return *arena ? (*arena)->get() : nullptr;
#endif
}

}  // namespace

Result<Buffer> Buffer::allocate(std::size_t capacity_bytes) {
  BufferArena* const arena = common_arena();
  return arena != nullptr ? arena->allocate(capacity_bytes) : allocate_from_heap(capacity_bytes);
}

void provide_buffers(std::size_t bytes) {
  if (const BufferArena* const arena = common_arena(); arena != nullptr) arena->provide(bytes);
}

Result<Buffer> Buffer::allocate_from_heap(std::size_t capacity_bytes) {
  Buffer buffer;
  if (capacity_bytes == 0) return buffer;
  const std::size_t rounded = (capacity_bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  if (rounded < capacity_bytes) return system_error(ENOMEM, "allocate a buffer");
  void* memory = ::operator new (rounded, std::align_val_t{kBufferAlignment}, std::nothrow);
  if (memory == nullptr) return system_error(ENOMEM, "allocate a buffer");
  buffer.data_ = static_cast<std::byte*>(memory);
  buffer.capacity_ = rounded;
  return buffer;
}

void Buffer::set_size(std::size_t size) {
  HEADRACE_ASSERT(size <= capacity_);
  size_ = size;
}

void Buffer::reset() {
  if (arena_ != nullptr) {
    arena_->release(data_, capacity_);
  } else {
    ::operator delete (data_, std::align_val_t{kBufferAlignment});
  }
  data_ = nullptr;
  capacity_ = 0;
  size_ = 0;
  arena_ = nullptr;
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  std::swap(size_, other.size_);
  std::swap(arena_, other.arena_);
}

}  // namespace headrace::io
