// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
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
#include "headrace/io/log.h"
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

// What one broken pack costs is that pack; what was asked for wrongly is wrong for all of them.
bool costs_one(const io::Error& error) {
  return error.code != ErrorCode::kInvalidArgument && error.code != ErrorCode::kCancelled;
}

void leave_out(const io::Error& error, std::vector<std::string>& left_out) {
  left_out.push_back(error.message() + "; it is read as a plain file, without records");
  io::log_warning("{}", left_out.back());
}

io::Result<std::vector<FoundPack>> find_packs(int directory_fd, const Catalog& catalog, std::string_view records,
                                              std::vector<std::string>& left_out) {
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
    if (is_leftover(path)) continue;
    if (any_file) {
      packs.push_back({.path = std::move(path), .format = {}});
      continue;
    }
    io::Result<std::string> format = record_format_of(directory_fd, path);
    if (!format) leave_out(format.error(), left_out);
    if (!format || format->empty() || (records != "auto" && wanted != *format)) continue;
    packs.push_back({.path = std::move(path), .format = std::move(*format)});
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

io::Result<std::vector<Pack>> open_all(int directory_fd, const Catalog& catalog, const std::vector<FoundPack>& found,
                                       std::string_view records, std::vector<std::string>& left_out) {
  std::vector<Pack> packs;
  std::uint64_t count = 0;
  std::uint64_t rows = 0;
  for (const FoundPack& each : found) {
    io::Result<RecordMap> map = open_record_map(directory_fd, each.path, records);
    if (!map) {
      const bool was_last_hope = packs.empty() && &each == &found.back();
      if (!costs_one(map.error()) || was_last_hope) return io::forward_error(std::move(map));
      leave_out(map.error(), left_out);
      continue;
    }
    count += map->count();
    rows += map->rows();
    // Before the others are walked: their maps would take memory for nothing.
    if (const io::Status fits = RecordSet::check_counts(count, rows); !fits)
      return io::make_error(fits.error().code, each.path + ": with this pack " + fits.error().context);
    packs.push_back({.entry = catalog.find(each.path).value(), .map = std::move(*map)});
  }
  return packs;
}

}  // namespace

bool is_leftover(std::string_view path) {
  constexpr std::array<std::string_view, 12> kEndings = {"~",         ".tmp",        ".temp",     ".part",
                                                         ".partial",  ".crdownload", ".download", ".incomplete",
                                                         ".filepart", ".gstmp",      ".aria2",    ".swp"};
  if (path.starts_with('.') || path.find("/.") != std::string_view::npos) return true;
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return path.ends_with(ending); });
}

io::Result<std::shared_ptr<const RecordSet>> open_record_set(int directory_fd, const Catalog& catalog,
                                                             std::string_view records) {
  std::vector<std::string> left_out;
  HEADRACE_TRY(found, find_packs(directory_fd, catalog, records, left_out));
  if (found.empty()) {
    constexpr std::size_t kShown = 80;
    return io::make_error(ErrorCode::kInvalidArgument,
                          fmt::format("records {}: the folder has no such pack; known are {}",
                                      io::printable(records.substr(0, kShown)), fmt::join(record_formats(), ", ")));
  }
  HEADRACE_TRY_DO(check_same_format(found));
  HEADRACE_TRY(packs, open_all(directory_fd, catalog, found, records, left_out));
  io::Result<RecordSet> set = RecordSet::make(std::move(packs));
  if (!set) return io::make_error(set.error().code, found.front().path + ": " + set.error().context);
  set->set_left_out(std::move(left_out));
  return std::make_shared<const RecordSet>(std::move(*set));
}

}  // namespace headrace::cache
