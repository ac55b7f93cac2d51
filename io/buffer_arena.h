// SPDX-License-Identifier: Apache-2.0
// Memory that buffers are cut from, on huge pages where they can be had.
//
//   auto arena = BufferArena::create({.bytes = 256 << 20});
//   auto engine = open_engine({.arena = *arena});      // registers it with the kernel; see
//   EngineInfo::registered_bytes auto buffer = (*arena)->allocate(108'000);         // from the heap when the arena is
//   full: slower, never an error
//
// A direct read into scattered 4 KiB pages costs the kernel a reference and the device a segment for each; on huge
// pages it is one of each. Reading 110 kB records: 4.1 us of processor time instead of 10.0 (bench io/read_packed,
// Linux 6.18, virtio disk, 2026-11-20). Registering saves the references too, where huge pages cannot be had.
//
// Thread-safety: any thread. Ownership: buffers return their part on destruction; the arena outlives all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "headrace/io/buffer.h"
#include "headrace/io/mutex.h"

namespace headrace::io {

struct BufferArenaOptions {
  // Taken from the system as it is first used, or at once when an engine registers it: then it is locked as well, and
  // RLIMIT_MEMLOCK (8 MiB for users by default) bounds how much.
  std::size_t bytes = 64 << 20;
  // How much of it, from the low end, asks for huge pages; the rest gets what the system gives by itself. Huge pages
  // are for memory that is used again and again: to clear one for the first time can take 2 ms on a virtual machine
  // whose memory the host has not provided yet, and as a block that nobody used lately it often is such memory.
  std::size_t huge_bytes = SIZE_MAX;
  // Gives memory back to the system when much of it has become free. Not for a registered arena, which keeps its pages.
  bool give_back = false;
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
  // Takes the first `bytes` from the system now (Linux 5.14; before, as they are used). No error: what the system does
  // not have is missed when it is used.
  void provide(std::size_t bytes) const;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool on_huge_pages() const { return on_huge_pages_; }
  [[nodiscard]] std::size_t free_bytes() const;
  // Buffers that came from the heap because nothing large enough was free.
  [[nodiscard]] std::uint64_t heap_allocations() const;

 private:
  friend class Buffer;
  BufferArena(std::byte* data, std::size_t size, bool on_huge_pages, bool give_back);

  void release(std::byte* data, std::size_t bytes);
  void give_back_free() HEADRACE_REQUIRES(mutex_);
  void insert_free(std::size_t offset, std::size_t bytes) HEADRACE_REQUIRES(mutex_);
  void erase_free(std::size_t offset, std::size_t bytes) HEADRACE_REQUIRES(mutex_);

  std::byte* const data_;
  const std::size_t size_;
  const bool on_huge_pages_;
  const bool give_back_;

  mutable Mutex mutex_;
  std::map<std::size_t, std::size_t> free_by_offset_ HEADRACE_GUARDED_BY(mutex_);
  // Smallest part that fits, and of those the lowest: the registered part is at the low end.
  std::set<std::pair<std::size_t, std::size_t>> free_by_size_ HEADRACE_GUARDED_BY(mutex_);
  std::size_t free_bytes_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::size_t used_and_free_bytes_ HEADRACE_GUARDED_BY(mutex_) = 0;  // freed since memory was last given back
  std::uint64_t heap_allocations_ HEADRACE_GUARDED_BY(mutex_) = 0;
};

// BufferArena::provide() for the memory that Buffer::allocate() gives. Thread-safety: any thread.
void provide_buffers(std::size_t bytes);

}  // namespace headrace::io
