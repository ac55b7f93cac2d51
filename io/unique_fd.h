// SPDX-License-Identifier: Apache-2.0
// An open file descriptor that closes itself.
//
//   const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
//   if (!file.valid()) return system_error(errno, path);
//
// Thread-safety: as a plain value. Ownership: move-only.
#pragma once

#include <utility>

#include <unistd.h>

namespace headrace::io {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  // Gives up ownership without closing.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  // Closes the descriptor held, and holds `fd` from now on. An error of close() is ignored: a reader cannot act on it.
  void reset(int fd = -1) {
    const int old = std::exchange(fd_, fd);
    if (old >= 0) ::close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace headrace::io
