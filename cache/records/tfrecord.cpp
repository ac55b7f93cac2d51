// SPDX-License-Identifier: Apache-2.0
// TFRecord (tensorflow.org/tutorials/load_data/tfrecord, "TFRecords format details"): u64 length, u32 masked CRC-32C of
// the length, data, u32 masked CRC-32C of the data. There is no index: the walk reads the 12 bytes before each record.
#include <array>

#include "headrace/cache/records/formats.h"

namespace headrace::cache {
namespace {

constexpr std::size_t kTfrecordHeadBytes = 12;
constexpr std::uint64_t kTailBytes = 4;

constexpr std::array<std::uint32_t, 256> kCrcOfByte = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);  // Castagnoli, reflected
    table[byte] = crc;
  }
  return table;
}();

std::uint32_t masked_crc(std::span<const std::byte> bytes) {
  std::uint32_t crc = UINT32_MAX;
  for (const std::byte byte : bytes) crc = crc >> 8 ^ kCrcOfByte[(crc ^ static_cast<std::uint32_t>(byte)) & 0xff];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

}  // namespace

bool begins_tfrecord(std::span<const std::byte> head) {
  return head.size() >= kTfrecordHeadBytes && masked_crc(head.first(8)) == little_endian<std::uint32_t>(head, 8);
}

io::Result<RecordMap> map_tfrecord(const PackFile& pack) {
  RecordMap map(pack.size());
  PackWalk walk(pack);
  std::array<std::byte, kTfrecordHeadBytes> head{};
  for (std::uint64_t at = 0; at < pack.size();) {
    if (pack.size() - at < kTfrecordHeadBytes + kTailBytes) return pack.corrupt("its last record is cut off");
    HEADRACE_TRY_DO(walk.read(at, head));
    if (!begins_tfrecord(head)) return pack.corrupt("the length of a record fails its checksum");
    const auto length = little_endian<std::uint64_t>(head, 0);
    if (length > pack.size() - at - kTfrecordHeadBytes - kTailBytes) return pack.corrupt("its last record is cut off");
    const std::uint64_t bytes = kTfrecordHeadBytes + length + kTailBytes;
    if (const io::Status added = map.add(at, bytes); !added) return pack.corrupt(added.error().context);
    at += bytes;
  }
  return map;
}

}  // namespace headrace::cache
