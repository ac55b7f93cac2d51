// SPDX-License-Identifier: Apache-2.0
// What a read hands out: content that is pinned in memory. And how soon a read is needed.
//
// Ownership: move-only; unpins on destruction, which must come before the Store's.
// Thread-safety: as a plain value; the bytes may be read from any thread while the view lives.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "headrace/cache/tier.h"
#include "headrace/io/file_attributes.h"
#include "headrace/io/result.h"

namespace headrace::cache {

struct Holding;

class View {
 public:
  View() = default;
  ~View() { reset(); }
  View(View&& other) noexcept { swap(other); }
  View& operator=(View&& other) noexcept {
    if (this != &other) {
      reset();
      swap(other);
    }
    return *this;
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] TierKind served_from() const { return served_from_; }
  // All bytes of the file that these belong to, where it is held in one piece.
  struct WholeFile {
    io::FileAttributes identity;  // the version that the bytes are of
    std::span<const std::byte> bytes;
  };
  [[nodiscard]] std::optional<WholeFile> whole_file() const;
  void reset();

 private:
  friend struct Holding;
  void swap(View& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(served_from_, other.served_from_);
    std::swap(holding_, other.holding_);
  }

  std::span<const std::byte> bytes_;
  TierKind served_from_ = TierKind::kSource;
  Holding* holding_ = nullptr;  // carries one pin; null: nothing to unpin
};

// How soon a read is needed, and what becomes of its content in RAM.
enum class ReadHint : std::uint8_t {
  kNow,
  kNowHere,  // now, and the caller may wait: where the source is a local disk that does not seek, it reads itself
  kAhead,
  kAheadHere,     // ahead, and the caller may wait as with kNowHere
  kAheadAlone,    // ahead, and of a large file what was asked for and no more: its surroundings are not read next
  kAheadUnasked,  // the same, and nobody waits for it before it has come
  kAheadAndKeep,  // stays until drop() or release(), as far as the budget permits
};

using ReadCallback = std::function<void(io::Result<View>)>;

}  // namespace headrace::cache
