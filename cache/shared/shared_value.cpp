// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/shared_value.h"

#include <cstring>

#include <xxhash.h>

#include "headrace/io/result.h"

namespace headrace::cache {
namespace {

constexpr std::string_view kPrefix = "h1";  // the version of key and header
constexpr std::array<char, 8> kMagic = {'h', 'e', 'a', 'd', 'r', 'a', 'c', 'e'};

// As it lies in memory: nodes of another byte order find a foreign header, which is a miss.
struct Layout {
  std::array<char, 8> magic = kMagic;
  std::uint64_t version = 1;
  std::array<char, kSharedKeyBytes> key = {};
  std::uint64_t payload_bytes = 0;
  std::uint64_t payload_hash = 0;
  std::uint64_t rest = 0;
};
static_assert(sizeof(Layout) == kSharedHeaderBytes);

// 22 characters of the alphabet of RFC 4648, section 5.
void append_base64(XXH128_hash_t hash, std::string& out) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  constexpr unsigned kCharacters = 22;
  for (unsigned i = 0; i < kCharacters; ++i) {
    out += kAlphabet[hash.low64 & 63U];
    hash.low64 = hash.low64 >> 6U | hash.high64 << 58U;
    hash.high64 >>= 6U;
  }
}

}  // namespace

SharedKey shared_key(std::string_view data_set, std::string_view path, std::uint32_t chunk, const Identity& identity) {
  std::string named(data_set);
  named += '\0';
  named += path;
  const std::array<std::uint64_t, 4> numbers = {chunk, identity.size_bytes,
                                                static_cast<std::uint64_t>(identity.mtime_ns),
                                                static_cast<std::uint64_t>(identity.ctime_ns)};
  named.append(reinterpret_cast<const char*>(numbers.data()), sizeof numbers);
  SharedKey key(kPrefix);
  append_base64(XXH3_128bits(named.data(), named.size()), key);
  HEADRACE_ASSERT(key.size() == kSharedKeyBytes);
  return key;
}

SharedHeader make_header(const SharedKey& key, std::span<const std::byte> payload) {
  Layout layout;
  std::memcpy(layout.key.data(), key.data(), layout.key.size());
  layout.payload_bytes = payload.size();
  layout.payload_hash = XXH3_64bits(payload.data(), payload.size());
  SharedHeader header;
  std::memcpy(header.data(), &layout, sizeof layout);
  return header;
}

bool is_value_of(const SharedKey& key, const SharedHeader& header, std::span<const std::byte> payload) {
  return header == make_header(key, payload);
}

}  // namespace headrace::cache
