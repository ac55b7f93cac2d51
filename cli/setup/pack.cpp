// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/pack.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "headrace/cache/record_map.h"
#include "headrace/io/printable.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;

// Each file is opened to see what it is, and its index is read: three reads of the source or more, one after the other,
// and with 5 ms for each of them a mount of so many packs is ready after 150 s.
constexpr std::uint64_t kFilesMax = 10'000;

struct Found {
  std::string path;
  std::string format;  // empty: any file
};

io::Result<std::vector<Found>> find_packs(const Source& source, const cache::Catalog& catalog,
                                          const std::string& records) {
  const bool any_file = records.starts_with("stride=");
  const std::string_view wanted = cache::record_format_in(records);
  std::uint64_t files = 0;
  std::vector<Found> packs;
  for (cache::EntryId entry = 0; entry < catalog.entry_count(); ++entry) {
    if (!catalog.is_file(entry)) continue;
    if (++files > kFilesMax) {
      return io::make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("--records: the folder has more than {} files; name a folder with fewer", kFilesMax));
    }
    std::string path = catalog.path(entry);
    if (any_file) {
      packs.push_back({.path = std::move(path), .format = {}});
      continue;
    }
    HEADRACE_TRY(format, cache::record_format_of(source.directory.get(), path));
    if (format.empty() || (records != "auto" && wanted != format)) continue;
    packs.push_back({.path = std::move(path), .format = std::move(format)});
  }
  std::ranges::sort(packs, {}, &Found::path);
  return packs;
}

io::Status check_same_format(const std::vector<Found>& packs) {
  const auto other = std::ranges::find_if(packs, [&](const Found& each) { return each.format != packs[0].format; });
  if (other == packs.end()) return {};
  return io::make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("--records auto: {} is a pack of the format {} and {} one of {}; write --records {} or {}",
                  io::printable(packs[0].path), packs[0].format, io::printable(other->path), other->format,
                  packs[0].format, other->format));
}

}  // namespace

io::Result<std::shared_ptr<const cache::RecordSet>> open_packs(const Source& source, const cache::Catalog& catalog,
                                                               const std::string& records) {
  if (source.is_bucket()) {
    return io::make_error(ErrorCode::kInvalidArgument,
                          fmt::format("--records: the index of a pack is read from a folder; mount {} and name the "
                                      "mount",
                                      source.path.string()));
  }
  HEADRACE_TRY(found, find_packs(source, catalog, records));
  if (found.empty()) {
    return io::make_error(ErrorCode::kInvalidArgument,
                          fmt::format("--records {}: the folder has no such pack; known are {}",
                                      io::printable(records.substr(0, 80)), fmt::join(cache::record_formats(), ", ")));
  }
  HEADRACE_TRY_DO(check_same_format(found));
  std::vector<cache::Pack> packs;
  for (const Found& each : found) {
    HEADRACE_TRY(map, cache::open_record_map(source.directory.get(), each.path, records));
    packs.push_back({.entry = catalog.find(each.path).value(), .map = std::move(map)});
  }
  io::Result<cache::RecordSet> set = cache::RecordSet::make(std::move(packs));
  if (!set) return io::make_error(set.error().code, found.front().path + ": " + set.error().context);
  return std::make_shared<const cache::RecordSet>(std::move(*set));
}

}  // namespace headrace::cli
