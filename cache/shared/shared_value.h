// SPDX-License-Identifier: Apache-2.0
// What lies under a key in the shared tier: a header that says what the bytes are, then the bytes of one chunk.
//
//   const SharedKey key = shared_key(data_set, "a/b.jpg", 0, identity);
//   const SharedHeader header = make_header(key, payload);
//   if (is_value_of(key, received_header, received_payload)) serve(received_payload);
//
// The key names the version of the file: other content is under another key, and what nobody asks for any more ends
// with its time. The change time belongs to it, because a file may be rewritten with its size and modification time as
// they were. So nodes share what lies on one file system that all of them see, not copies of their own.
//
// Thread-safety: pure functions, plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "headrace/cache/chunk.h"

namespace headrace::cache {

inline constexpr std::size_t kSharedKeyBytes = 24;
inline constexpr std::size_t kSharedHeaderBytes = 64;

using SharedKey = std::string;  // kSharedKeyBytes characters that memcached takes in a key
using SharedHeader = std::array<std::byte, kSharedHeaderBytes>;

[[nodiscard]] SharedKey shared_key(std::string_view data_set, std::string_view path, std::uint32_t chunk,
                                   const Identity& identity);

[[nodiscard]] SharedHeader make_header(const SharedKey& key, std::span<const std::byte> payload);
// Whether these are the bytes that were stored under this key, all of them and unchanged.
[[nodiscard]] bool is_value_of(const SharedKey& key, const SharedHeader& header, std::span<const std::byte> payload);

}  // namespace headrace::cache
