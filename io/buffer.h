// SPDX-License-Identifier: Apache-2.0
// Owned, page-aligned memory for one operation or one cached sample.
//
//   auto buffer = Buffer::allocate(108'000);   // capacity rounded up to 4096, address aligned to 4096
//   operation.buffer = std::move(*buffer);     // belongs to the operation until its completion
//
// Memory comes from huge pages where they can be had (io/internal/buffer_arena.h says why).
// Thread-safety: as a plain value. Ownership: move-only; the memory goes with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "headrace/io/result.h"

namespace headrace::io {

// Direct I/O needs at most this much alignment on every file system headrace knows (STATX_DIOALIGN is 512 or 4096).
inline constexpr std::size_t kBufferAlignment = 4096;

class BufferArena;

class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      swap(other);
    }
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // A buffer of at least `capacity_bytes` (0 gives an empty one), size() == 0, content undefined.
  // Errors: kSystem with ENOMEM.
  [[nodiscard]] static Result<Buffer> allocate(std::size_t capacity_bytes);

  [[nodiscard]] std::byte* data() { return data_; }
  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  // How many bytes from data() on are content; set by whoever fills the buffer.
  [[nodiscard]] std::size_t size() const { return size_; }
  void set_size(std::size_t size);
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

  void reset();
  void swap(Buffer& other) noexcept;

 private:
  friend class BufferArena;
  [[nodiscard]] static Result<Buffer> allocate_from_heap(std::size_t capacity_bytes);
  Buffer(BufferArena& arena, std::byte* data, std::size_t capacity)
      : data_(data), capacity_(capacity), arena_(&arena) {}

  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
  BufferArena* arena_ = nullptr;  // nullptr: from the heap
};

// Takes memory for the next `bytes` of buffers from the system now rather than when they are first written (Linux 5.14;
// no effect before). No error: what the system does not have is missed when it is used. Thread-safety: any thread.
void provide_buffers(std::size_t bytes);

}  // namespace headrace::io
