// SPDX-License-Identifier: Apache-2.0
// The index is text, "key<TAB>offset" a line (MXNet's MXIndexedRecordIO). A record goes to where the next one begins,
// so that the .rec itself is read in one place only: at the first record, to see that the two files belong together.
#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "headrace/cache/records/formats.h"

namespace headrace::cache {
namespace {

constexpr std::uint32_t kRecordioMagic = 0xced7230a;
constexpr std::uint64_t kRecordioHeaderBytes = 8;
// Of the index: 4 GiB. A line takes 10 to 30 bytes, so that kRecordsMax lines fit well.
constexpr std::uint64_t kIndexBytesMax = std::uint64_t{1} << 32;
constexpr std::size_t kScanBytes = std::size_t{256} * 1024;
constexpr std::size_t kLineMax = 4096;

// `records_max`: as many as the .rec has room for. An index that names more is refused before it takes memory.
io::Result<std::vector<std::uint64_t>> read_offsets(const PackFile& index, std::uint64_t records_max) {
  if (index.size() > kIndexBytesMax) return index.corrupt("the index is too large");
  std::vector<std::uint64_t> offsets;
  std::string text;
  std::string piece;
  for (std::uint64_t at = 0; at < index.size(); at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(kScanBytes, index.size() - at));
    HEADRACE_TRY_DO(index.read(at, std::as_writable_bytes(std::span(piece))));
    text += piece;
    if (at + piece.size() == index.size() && !text.ends_with('\n')) text += '\n';
    std::size_t line = 0;
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', line)) {
      const std::size_t tab = std::min(text.find('\t', line), end);
      std::uint64_t offset = 0;
      const char* const number_end = text.data() + end - (end > line && text[end - 1] == '\r' ? 1 : 0);
      const char* const number = std::min<const char*>(text.data() + tab + 1, number_end);
      const auto [stop, error] = std::from_chars(number, number_end, offset);
      if (error != std::errc() || stop != number_end) return index.corrupt("a line is not \"key<TAB>offset\"");
      if (offsets.size() == records_max) return index.corrupt("the index has too many lines for this .rec");
      offsets.push_back(offset);
      line = end + 1;
    }
    text.erase(0, line);
    if (text.size() > kLineMax) return index.corrupt("a line is not \"key<TAB>offset\"");
  }
  return offsets;
}

}  // namespace

io::Result<RecordMap> map_recordio(const PackFile& pack, const PackFile& index) {
  HEADRACE_TRY(offsets, read_offsets(index, std::min(kRecordsMax, pack.size() / kRecordioHeaderBytes)));
  if (offsets.empty()) return index.corrupt("the index is empty");
  std::array<std::byte, kRecordioHeaderBytes> head{};
  HEADRACE_TRY_DO(pack.read(offsets.front(), head));
  if (little_endian<std::uint32_t>(head, 0) != kRecordioMagic) return index.corrupt("it is not the index of this .rec");
  auto map = RecordMap::adjoining(pack.size(), std::move(offsets), kRecordioHeaderBytes);
  if (!map) return index.corrupt(map.error().context);
  return map;
}

}  // namespace headrace::cache
