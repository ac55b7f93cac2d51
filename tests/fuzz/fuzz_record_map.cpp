// SPDX-License-Identifier: Apache-2.0
// libFuzzer target over every reader of packs' indexes. By hand, for longer than the test has:
//   write_pack_corpus corpus && fuzz_record_map -max_total_time=3600 corpus
//
// An input is a byte that chooses the format, two that are the length of the .idx, the .idx and the pack.
// HEADRACE_FUZZ_FORMAT=lmdb: all time goes to one format, whatever the byte says.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>

#include "headrace/cache/record_set.h"
#include "headrace/io/unique_fd.h"

#include "support/temp_dir.h"

namespace {

using namespace headrace;  // a program of one file

void check(bool holds) {
  if (!holds) __builtin_trap();
}

// As much as the mount asks of a map.
void check_map(cache::RecordMap map, std::uint64_t pack_bytes) {
  constexpr std::uint64_t kLooked = 1000;
  check(map.file_bytes() == pack_bytes && map.count() <= cache::kRecordsMax && map.rows() >= map.count());
  const cache::RecordPlaces places(map);
  for (std::uint64_t record = 0; record < std::min(map.count(), kLooked); ++record) {
    const cache::RecordExtent extent = map.extent(record);
    check(extent.offset <= pack_bytes && extent.length <= pack_bytes - extent.offset);
    for (const std::uint32_t found : places.in_range(extent.offset, extent.length, 16)) check(found < map.count());
  }
  std::vector<cache::Pack> packs;
  packs.push_back({.entry = 1, .map = std::move(map)});
  const auto set = cache::RecordSet::make(std::move(packs));
  if (!set) return;
  check(set->record_of_row(set->rows() - 1) == set->count() - 1);
  check(set->sizes_in_pages(4096).size() == set->count());
}

std::string_view format_of(std::uint8_t byte) {
  static const std::vector<std::string_view> formats = cache::record_formats();
  static const char* only = std::getenv("HEADRACE_FUZZ_FORMAT");
  if (only == nullptr) return formats[byte % formats.size()];
  check(std::find(formats.begin(), formats.end(), only) != formats.end());
  return only;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const test::TempDir dir;
  static const io::UniqueFd folder(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (size < 3) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string_view format = format_of(data[0]);
  const std::size_t index_bytes = std::min<std::size_t>(data[1] | std::size_t{data[2]} << 8, size - 3);
  const std::string_view pack = bytes.substr(3 + index_bytes);
  const std::string name = "pack." + std::string(format);
  static_cast<void>(dir.write("pack.idx", bytes.substr(3, index_bytes)));
  static_cast<void>(dir.write(name, pack));
  static_cast<void>(cache::record_format_of(folder.get(), name));
  if (auto map = cache::open_record_map(folder.get(), name, format)) {
    check_map(std::move(*map), pack.size());
  } else {
    check(map.error().message().find('\n') == std::string::npos);
  }
  return 0;
}
