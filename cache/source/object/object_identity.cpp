// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/object_identity.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

namespace headrace::cache {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::size_t kHexDigits = 16;  // of a number of 64 bits
// An upload has 10 000 parts at most in S3. Others allow more, up to this it fits.
constexpr std::uint32_t kUploadPartsMax = 99'999;
constexpr std::uint32_t kHashed = 200'000;

// An ETag in 16 bytes and a number below a million, which becomes nanoseconds.
struct PackedEtag {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  std::uint32_t kind = 0;  // 0: an MD5; to kUploadPartsMax: of so many parts; kHashed
};

std::optional<std::uint64_t> read_hex(std::string_view text) {
  std::uint64_t value = 0;
  for (const char digit : text) {
    const bool is_digit = digit >= '0' && digit <= '9';
    if (!is_digit && (digit < 'a' || digit > 'f')) return std::nullopt;  // capitals would not come out again
    value = value << 4U | static_cast<std::uint64_t>(is_digit ? digit - '0' : digit - 'a' + 10);
  }
  return value;
}

// Empty: there is none, which counts as 0. nullopt: not a number as we would write it.
std::optional<std::uint32_t> read_parts(std::string_view text) {
  if (text.empty()) return 0;
  if (text.size() < 2 || text[0] != '-' || text[1] == '0') return std::nullopt;
  std::uint32_t parts = 0;
  const auto [end, failure] = std::from_chars(text.data() + 1, text.data() + text.size(), parts);
  if (failure != std::errc{} || end != text.data() + text.size() || parts > kUploadPartsMax) return std::nullopt;
  return parts;
}

PackedEtag pack(std::string_view etag) {
  if (etag.size() >= 2 * kHexDigits) {
    const auto high = read_hex(etag.substr(0, kHexDigits));
    const auto low = read_hex(etag.substr(kHexDigits, kHexDigits));
    const auto parts = read_parts(etag.substr(2 * kHexDigits));
    if (high && low && parts) return {*high, *low, *parts};
  }
  const XXH128_hash_t hash = XXH3_128bits(etag.data(), etag.size());
  return {hash.high64, hash.low64, kHashed};
}

PackedEtag packed_in(const Identity& identity) {
  return {static_cast<std::uint64_t>(identity.ctime_ns), identity.inode,
          static_cast<std::uint32_t>(identity.mtime_ns % kSecond)};
}

// A store that says a time before 1970 does not know it.
std::int64_t whole_seconds(std::int64_t time_ns) {
  return std::max(time_ns, std::int64_t{0}) / kSecond * kSecond;
}

}  // namespace

std::string_view strong_etag(std::string_view text) {
  if (text.starts_with("W/")) return {};
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') return text.substr(1, text.size() - 2);
  return text;
}

io::ScannedAttributes attributes_of_object(const ObjectVersion& version) {
  const PackedEtag packed = pack(version.etag);
  return {.size_bytes = version.size_bytes,
          .mtime_ns = whole_seconds(version.mtime_ns) + packed.kind,
          .ctime_ns = static_cast<std::int64_t>(packed.high),
          .inode = packed.low,
          .mode = S_IFREG | S_IRUSR | S_IRGRP | S_IROTH,
          .uid = ::geteuid(),
          .gid = ::getegid()};
}

std::string etag_of(const Identity& identity) {
  const PackedEtag packed = packed_in(identity);
  if (packed.kind > kUploadPartsMax) return {};
  std::string etag = fmt::format("{:016x}{:016x}", packed.high, packed.low);
  if (packed.kind > 0) etag += fmt::format("-{}", packed.kind);
  return etag;
}

std::int64_t written_at(const Identity& identity) {
  return whole_seconds(identity.mtime_ns);
}

bool has_etag(const Identity& identity, std::string_view etag) {
  const PackedEtag wanted = packed_in(identity);
  const PackedEtag found = pack(etag);
  return found.high == wanted.high && found.low == wanted.low && found.kind == wanted.kind;
}

}  // namespace headrace::cache
