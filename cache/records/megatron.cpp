// SPDX-License-Identifier: Apache-2.0
// The index of Megatron's IndexedDataset (megatron/core/datasets/indexed_dataset.py):
//
//   "MMIDIDX\0\0", u64 version 1, u8 type, u64 sequences, u64 documents,
//   i32 lengths[sequences] in tokens, i64 pointers[sequences] in bytes of the .bin, i64 documents[documents]
#include <array>
#include <string_view>
#include <vector>

#include "headrace/cache/records/formats.h"

namespace headrace::cache {
namespace {

constexpr std::string_view kMegatronMagic("MMIDIDX\0\0", 9);
constexpr std::size_t kMegatronHeaderBytes = 34;
// By the number of the type. 6 and 7 are the floating-point types, which old and new versions number differently, and
// no tokens.
constexpr std::array<std::uint8_t, 9> kTokenBytes = {0, 1, 1, 2, 4, 8, 0, 0, 2};

}  // namespace

io::Result<RecordMap> map_megatron(const PackFile& pack, const PackFile& index) {
  std::array<std::byte, kMegatronHeaderBytes> head{};
  HEADRACE_TRY_DO(index.read(0, head));
  if (std::string_view(reinterpret_cast<const char*>(head.data()), kMegatronMagic.size()) != kMegatronMagic) {
    return index.corrupt("it is no index of Megatron");
  }
  if (little_endian<std::uint64_t>(head, 9) != 1) return index.unsupported("an index of Megatron of another version");
  const auto type = little_endian<std::uint8_t>(head, 17);
  const std::uint64_t token_bytes = type < kTokenBytes.size() ? kTokenBytes[type] : 0;
  if (token_bytes == 0) return index.unsupported("its tokens are of a type that is not known");
  const auto sequences = little_endian<std::uint64_t>(head, 18);
  if (sequences > kRecordsMax || sequences > index.size() / (sizeof(std::int32_t) + sizeof(std::int64_t))) {
    return index.corrupt("it has no room for so many sequences");
  }
  std::vector<std::uint32_t> lengths;
  lengths.reserve(sequences);
  HEADRACE_TRY_DO(index.read_table(
      kMegatronHeaderBytes, sequences, sizeof(std::int32_t), [&](std::span<const std::byte> entry) -> io::Status {
        lengths.push_back(little_endian<std::uint32_t>(entry, 0));  // a negative one ends outside of any file
        return {};
      }));
  RecordMap map(pack.size());
  constexpr std::uint64_t kLengthBytes = sizeof(std::int32_t);
  HEADRACE_TRY_DO(index.read_table(kMegatronHeaderBytes + sequences * kLengthBytes, sequences, sizeof(std::int64_t),
                                   [&](std::span<const std::byte> entry) -> io::Status {
                                     const std::uint64_t length = lengths[map.count()] * token_bytes;
                                     const io::Status added = map.add(little_endian<std::uint64_t>(entry, 0), length);
                                     return added ? added
                                                  : io::Status(index.corrupt("a sequence lies outside of the .bin"));
                                   }));
  return map;
}

}  // namespace headrace::cache
