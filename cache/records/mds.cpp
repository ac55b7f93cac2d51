// SPDX-License-Identifier: Apache-2.0
// The shards of Mosaic's StreamingDataset (streaming/base/format/mds/writer.py) and the chunks of LitData begin alike:
// u32 samples, u32 offsets[samples + 1], from the start of the file; the last one is its end. MDS has the names and
// types of its columns in between.
#include <array>

#include "headrace/cache/records/formats.h"

namespace headrace::cache {

io::Result<RecordMap> map_mds(const PackFile& pack) {
  std::array<std::byte, 4> head{};
  HEADRACE_TRY_DO(pack.read(0, head));
  const std::uint64_t samples = little_endian<std::uint32_t>(head, 0);
  const std::uint64_t table_end = sizeof(std::uint32_t) * (samples + 2);
  if (samples > kRecordsMax || table_end > pack.size()) return pack.corrupt("it has no room for so many samples");
  RecordMap map(pack.size());
  std::uint64_t before = 0;
  bool is_first = true;
  HEADRACE_TRY_DO(
      pack.read_table(sizeof(std::uint32_t), samples + 1, sizeof(std::uint32_t), [&](std::span<const std::byte> entry) {
        const std::uint64_t offset = little_endian<std::uint32_t>(entry, 0);
        if (offset < (is_first ? table_end : before)) return io::Status(pack.corrupt("its offsets do not rise"));
        const io::Status added = is_first ? io::Status() : map.add(before, offset - before);
        is_first = false;
        before = offset;
        return added ? added : io::Status(pack.corrupt(added.error().context));
      }));
  if (before != pack.size()) return pack.corrupt("its last sample does not end where the file does");
  return map;
}

}  // namespace headrace::cache
