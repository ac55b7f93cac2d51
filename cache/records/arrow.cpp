// SPDX-License-Identifier: Apache-2.0
// Arrow's IPC stream and file (arrow.apache.org/docs/format/Columnar.html, "Serialization and Interprocess
// Communication"): messages of u32 0xffffffff, i32 length of the header, the header, the body. A length of 0 ends the
// stream. A file is "ARROW1\0\0", a stream, and a footer. The header is a flatbuffer, of which three things are read
// (Message.fbs): slot 1, the kind, a byte; slot 3, the length of the body, i64.
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "headrace/cache/records/formats.h"

namespace headrace::cache {
namespace {

constexpr std::size_t kFramingBytes = 8;
// The table of a message lies at the beginning of its header, which may be long: a schema names every column.
constexpr std::size_t kLookBytes = std::size_t{64} * 1024;
constexpr std::uint8_t kRecordBatch = 3;

struct Message {
  std::uint8_t kind = 0;
  std::uint64_t body_bytes = 0;
};

// A number in a table of a flatbuffer, 0 where it is left out; nullopt: it lies outside of `bytes`.
template <typename Number>
std::optional<Number> field(std::span<const std::byte> bytes, std::size_t table, std::size_t slot) {
  const auto to_vtable = static_cast<std::int32_t>(little_endian<std::uint32_t>(bytes, table));
  const std::int64_t vtable = static_cast<std::int64_t>(table) - to_vtable;
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (vtable < 0 || vtable + 2 > size) return std::nullopt;
  const auto vtable_bytes = little_endian<std::uint16_t>(bytes, static_cast<std::size_t>(vtable));
  const std::size_t at = 4 + 2 * slot;
  if (at + 2 > vtable_bytes) return Number{0};
  if (vtable + static_cast<std::int64_t>(at) + 2 > size) return std::nullopt;
  const auto offset = little_endian<std::uint16_t>(bytes, static_cast<std::size_t>(vtable) + at);
  if (offset == 0) return Number{0};
  if (table + offset + sizeof(Number) > bytes.size()) return std::nullopt;
  return little_endian<Number>(bytes, table + offset);
}

std::optional<Message> message_of(std::span<const std::byte> header) {
  if (header.size() < 4) return std::nullopt;
  const std::size_t table = little_endian<std::uint32_t>(header, 0);
  if (table > header.size() || header.size() - table < 4) return std::nullopt;
  const auto kind = field<std::uint8_t>(header, table, 1);
  const auto body_bytes = field<std::uint64_t>(header, table, 3);
  if (!kind || !body_bytes) return std::nullopt;
  return Message{*kind, *body_bytes};
}

}  // namespace

io::Result<RecordMap> map_arrow(const PackFile& pack) {
  std::array<char, 8> magic{};
  HEADRACE_TRY_DO(pack.read(0, std::as_writable_bytes(std::span(magic))));
  std::uint64_t at = std::string_view(magic.data(), 6) == "ARROW1" ? magic.size() : 0;
  RecordMap map(pack.size());
  PackWalk walk(pack);
  std::vector<std::byte> header;
  while (at < pack.size()) {
    std::array<std::byte, kFramingBytes> framing{};
    HEADRACE_TRY_DO(walk.read(at, framing));
    if (little_endian<std::uint32_t>(framing, 0) != UINT32_MAX) {
      return pack.unsupported("a message of this Arrow file has no marker, as before Arrow 0.15");
    }
    const std::uint64_t header_bytes = little_endian<std::uint32_t>(framing, 4);
    if (header_bytes == 0) break;  // the end; a footer may follow
    const std::uint64_t room = pack.size() - at - kFramingBytes;
    if (header_bytes > room) return pack.corrupt("a message of this Arrow file is cut off");
    header.resize(std::min<std::uint64_t>(header_bytes, kLookBytes));
    HEADRACE_TRY_DO(walk.read(at + kFramingBytes, header));
    const std::optional<Message> message = message_of(header);
    if (!message) return pack.corrupt("the header of a message of this Arrow file makes no sense");
    if (message->body_bytes > room - header_bytes) return pack.corrupt("a message of this Arrow file is cut off");
    const std::uint64_t bytes = kFramingBytes + header_bytes + message->body_bytes;
    if (message->kind == kRecordBatch) {
      if (const io::Status added = map.add(at, bytes); !added) return pack.corrupt(added.error().context);
    }
    at += bytes;
  }
  return map;
}

}  // namespace headrace::cache
