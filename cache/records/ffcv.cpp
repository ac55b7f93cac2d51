// SPDX-License-Identifier: Apache-2.0
// FFCV's .beton, version 2 (ffcv/types.py): u16 version, u16 fields, u32 page size, u64 samples, u64 place of the table
// of allocations, which goes to the end of the file: u64 sample, u64 offset, u64 size. Numbers lie in the metadata, and
// a sample of numbers alone has no allocation: its record is empty.
#include <algorithm>
#include <array>
#include <vector>

#include "headrace/cache/records/formats.h"

namespace headrace::cache {
namespace {

constexpr std::size_t kFfcvHeaderBytes = 24;
constexpr std::size_t kEntryBytes = 24;
constexpr std::uint64_t kMetadataBytesMin = 8;  // of a sample: the smallest field is a number of 8 bytes

struct Extent {
  std::uint64_t begin = UINT64_MAX;
  std::uint64_t end = 0;
  std::uint64_t bytes = 0;  // allocated in between
};

}  // namespace

io::Result<RecordMap> map_ffcv(const PackFile& pack) {
  std::array<std::byte, kFfcvHeaderBytes> head{};
  HEADRACE_TRY_DO(pack.read(0, head));
  if (little_endian<std::uint16_t>(head, 0) != 2) return pack.unsupported("a .beton of another version");
  const std::uint64_t page_bytes = little_endian<std::uint32_t>(head, 4);
  const auto samples = little_endian<std::uint64_t>(head, 8);
  const auto table = little_endian<std::uint64_t>(head, 16);
  if (samples > kRecordsMax || samples > pack.size() / kMetadataBytesMin) {
    return pack.corrupt("it has no room for so many samples");
  }
  if (table > pack.size() || (pack.size() - table) % kEntryBytes != 0) {
    return pack.corrupt("its table of allocations does not fit the file");
  }
  std::vector<Extent> extents(samples);
  HEADRACE_TRY_DO(pack.read_table(table, (pack.size() - table) / kEntryBytes, kEntryBytes,
                                  [&](std::span<const std::byte> entry) -> io::Status {
                                    const auto sample = little_endian<std::uint64_t>(entry, 0);
                                    const auto offset = little_endian<std::uint64_t>(entry, 8);
                                    const auto bytes = little_endian<std::uint64_t>(entry, 16);
                                    if (sample >= samples || offset > pack.size() || bytes > pack.size() - offset) {
                                      return pack.corrupt("an allocation lies outside of the file");
                                    }
                                    Extent& extent = extents[sample];
                                    extent.begin = std::min(extent.begin, offset);
                                    extent.end = std::max(extent.end, offset + bytes);
                                    extent.bytes += bytes;
                                    return {};
                                  }));
  RecordMap map(pack.size());
  for (const Extent& extent : extents) {
    const bool is_empty = extent.begin > extent.end;
    // The fields of a sample lie side by side, but for what is left of a page that had no room for the next one.
    if (!is_empty && extent.end - extent.begin > extent.bytes + page_bytes) {
      return pack.unsupported("the fields of a sample lie apart from each other");
    }
    const io::Status added = is_empty ? map.add(0, 0) : map.add(extent.begin, extent.end - extent.begin);
    if (!added) return pack.corrupt(added.error().context);
  }
  return map;
}

}  // namespace headrace::cache
