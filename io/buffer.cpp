// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/buffer.h"

#include <cerrno>
#include <new>
#include <utility>

namespace headrace::io {

Result<Buffer> Buffer::allocate(std::size_t capacity_bytes) {
  Buffer buffer;
  if (capacity_bytes == 0) return buffer;
  const std::size_t rounded = (capacity_bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  if (rounded < capacity_bytes) return system_error(ENOMEM, "allocate a buffer");
  void* memory = ::operator new(rounded, std::align_val_t{kBufferAlignment}, std::nothrow);
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
  ::operator delete(data_, std::align_val_t{kBufferAlignment});
  data_ = nullptr;
  capacity_ = 0;
  size_ = 0;
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  std::swap(size_, other.size_);
}

}  // namespace headrace::io
