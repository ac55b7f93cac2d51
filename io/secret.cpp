// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/secret.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <new>

#include <sys/mman.h>

namespace headrace::io {

// Pages of their own: madvise() knows nothing smaller, and a heap would share them with what may be dumped.
struct Secret::Memory {
  explicit Memory(std::string_view text)
      : size(text.size()),
        data(::mmap(nullptr, text.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data == MAP_FAILED) throw std::bad_alloc();
    // It fails on no kernel that io_uring runs on; where it did, the secret would still be of use.
    static_cast<void>(::madvise(data, size, MADV_DONTDUMP));
    std::memcpy(data, text.data(), size);
  }
  ~Memory() {
    ::explicit_bzero(data, size);
    ::munmap(data, size);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  const std::size_t size;
  void* const data;
};

Secret::Secret(std::string_view text) {
  if (!text.empty()) memory_ = std::make_shared<const Memory>(text);
}

Secret Secret::take(std::string& text) {
  Secret secret(text);
  wipe(text);
  return secret;
}

std::string_view Secret::bytes() const {
  return memory_ ? std::string_view(static_cast<const char*>(memory_->data), memory_->size) : std::string_view();
}

void wipe(std::string& text) {
  ::explicit_bzero(text.data(), text.size());
  text.clear();
}

// 128 KiB: more than libcurl, OpenSSL and expat take, and a small part of a thread's stack. What is copied within it
// takes the registers in which other copies were.
[[gnu::noinline]] void wipe_stack() {
  constexpr std::size_t kCopiedBytes = 4096;
  std::array<std::byte, std::size_t{128} << 10> below;
  ::explicit_bzero(below.data(), below.size());
  std::memmove(below.data(), &below[below.size() - kCopiedBytes], kCopiedBytes);
  ::explicit_bzero(below.data(), kCopiedBytes);
}

}  // namespace headrace::io
