// SPDX-License-Identifier: Apache-2.0
// Memory that buffers are cut from, on huge pages where they can be had.
//
//   auto arena = BufferArena::create({.bytes = 64 << 20});
//   auto buffer = (*arena)->allocate(108'000);   // from the heap when the arena is full: slower, never an error
//
// A direct read into scattered 4 KiB pages costs the kernel a reference and the device a segment for each page. On huge
// pages it is one of each. Reading 110 kB records takes 4.1 us of processor time on them and 10.0 us without them
// (bench io/read_packed, Linux 6.18, virtio disk, 2026-11-20).
//
// Thread-safety: any thread. Ownership: buffers return their part on destruction; the arena outlives all of them.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "headrace/io/buffer.h"
#include "headrace/io/mutex.h"

namespace headrace::io {

struct BufferArenaOptions {
  // Address space. The system provides memory for it when it is first used, and gets it back when much of it is free.
  std::size_t bytes = 64 << 20;
  // How much of it, from the low end, asks for huge pages; the rest gets what the system gives by itself. Huge pages
  // are for memory that is used again and again. To clear one for the first time can take 2 ms on a virtual machine
  // whose host has not provided that memory yet, and a large block that nobody used lately often is such memory.
  std::size_t huge_bytes = SIZE_MAX;
};

class BufferArena {
 public:
  // Errors: kSystem with ENOMEM; kInvalidArgument for no bytes.
  [[nodiscard]] static Result<std::shared_ptr<BufferArena>> create(const BufferArenaOptions& options);
  ~BufferArena();
  BufferArena(const BufferArena&) = delete;
  BufferArena& operator=(const BufferArena&) = delete;

  // As Buffer::allocate().
  [[nodiscard]] Result<Buffer> allocate(std::size_t capacity_bytes);
  // As provide_buffers().
  void provide(std::size_t bytes) const;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t free_bytes() const;

 private:
  friend class Buffer;
  BufferArena(std::byte* data, std::size_t size);

  void release(std::byte* data, std::size_t bytes);
  void give_back_free() HEADRACE_REQUIRES(mutex_);
  void insert_free(std::size_t offset, std::size_t bytes) HEADRACE_REQUIRES(mutex_);
  void erase_free(std::size_t offset, std::size_t bytes) HEADRACE_REQUIRES(mutex_);

  std::byte* const data_;
  const std::size_t size_;

  mutable Mutex mutex_;
  std::map<std::size_t, std::size_t> free_by_offset_ HEADRACE_GUARDED_BY(mutex_);
  // The smallest part that fits is taken, and of those the lowest: the low end is on huge pages.
  std::set<std::pair<std::size_t, std::size_t>> free_by_size_ HEADRACE_GUARDED_BY(mutex_);
  std::size_t free_bytes_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::size_t used_and_free_bytes_ HEADRACE_GUARDED_BY(mutex_) = 0;  // freed since memory was last given back
};

}  // namespace headrace::io
