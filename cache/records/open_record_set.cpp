// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "headrace/cache/record_map.h"
#include "headrace/cache/record_set.h"
#include "headrace/io/printable.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;

// Each file is opened to see what it is, and its index is read: three reads of the source or more, one after the other,
// and with 5 ms for each of them a mount of so many packs is ready after 150 s.
constexpr std::uint64_t kFilesMax = 10'000;

struct FoundPack {
  std::string path;
  std::string format;  // empty: any file
};

io::Result<std::vector<FoundPack>> find_packs(int directory_fd, const Catalog& catalog, std::string_view records) {
  const bool any_file = records.starts_with("stride=");
  const std::string_view wanted = record_format_in(records);
  std::uint64_t files = 0;
  std::vector<FoundPack> packs;
  for (EntryId entry = 0; entry < catalog.entry_count(); ++entry) {
    if (!catalog.is_file(entry)) continue;
    if (++files > kFilesMax) {
      return io::make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("records: the folder has more than {} files; name a folder with fewer", kFilesMax));
    }
    std::string path = catalog.path(entry);
    if (any_file) {
      packs.push_back({.path = std::move(path), .format = {}});
      continue;
    }
    HEADRACE_TRY(format, record_format_of(directory_fd, path));
    if (format.empty() || (records != "auto" && wanted != format)) continue;
    packs.push_back({.path = std::move(path), .format = std::move(format)});
  }
  std::ranges::sort(packs, {}, &FoundPack::path);
  return packs;
}

io::Status check_same_format(const std::vector<FoundPack>& packs) {
  const FoundPack& first = packs.front();
  const auto other = std::ranges::find_if(packs, [&](const FoundPack& each) { return each.format != first.format; });
  if (other == packs.end()) return {};
  return io::make_error(ErrorCode::kInvalidArgument,
                        fmt::format("records auto: {} is a pack of the format {} and {} one of {}; name {} or {}",
                                    io::printable(first.path), first.format, io::printable(other->path), other->format,
                                    first.format, other->format));
}

}  // namespace

io::Result<std::shared_ptr<const RecordSet>> open_record_set(int directory_fd, const Catalog& catalog,
                                                             std::string_view records) {
  HEADRACE_TRY(found, find_packs(directory_fd, catalog, records));
  if (found.empty()) {
    constexpr std::size_t kShown = 80;
    return io::make_error(ErrorCode::kInvalidArgument,
                          fmt::format("records {}: the folder has no such pack; known are {}",
                                      io::printable(records.substr(0, kShown)), fmt::join(record_formats(), ", ")));
  }
  HEADRACE_TRY_DO(check_same_format(found));
  std::vector<Pack> packs;
  std::uint64_t count = 0;
  std::uint64_t rows = 0;
  for (const FoundPack& each : found) {
    HEADRACE_TRY(map, open_record_map(directory_fd, each.path, records));
    count += map.count();
    rows += map.rows();
    // Before the others are walked: their maps would take memory for nothing.
    if (const io::Status fits = RecordSet::check_counts(count, rows); !fits)
      return io::make_error(fits.error().code, each.path + ": with this pack " + fits.error().context);
    packs.push_back({.entry = catalog.find(each.path).value(), .map = std::move(map)});
  }
  io::Result<RecordSet> set = RecordSet::make(std::move(packs));
  if (!set) return io::make_error(set.error().code, found.front().path + ": " + set.error().context);
  return std::make_shared<const RecordSet>(std::move(*set));
}

}  // namespace headrace::cache
