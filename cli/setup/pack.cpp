// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/pack.h"

#include <cstdint>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "headrace/cache/record_order.h"
#include "headrace/io/printable.h"

namespace headrace::cli {
namespace {

// More files are no packed data set. Each is opened to see what it is.
constexpr std::uint64_t kFilesBesidePackMax = 1000;

io::Result<std::string> find_pack(const Source& source, const cache::Catalog& catalog, const std::string& records) {
  const bool any_file = records.starts_with("stride=");
  const std::string_view wanted = cache::record_format_in(records);
  std::uint64_t files = 0;
  std::string pack;
  for (cache::EntryId entry = 0; entry < catalog.entry_count(); ++entry) {
    if (!catalog.is_file(entry)) continue;
    if (++files > kFilesBesidePackMax) {
      return io::make_error(io::ErrorCode::kInvalidArgument, "--records: the folder has too many files for a pack");
    }
    const std::string path = catalog.path(entry);
    HEADRACE_TRY(format, cache::record_format_of(source.directory.get(), path));
    if (!any_file && (format.empty() || (records != "auto" && wanted != format))) continue;
    if (!pack.empty()) {
      return io::make_error(io::ErrorCode::kInvalidArgument,
                            fmt::format("--records: both {} and {} are packs; name a folder that has one",
                                        io::printable(pack), io::printable(path)));
    }
    pack = path;
  }
  if (pack.empty()) {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          fmt::format("--records {}: the folder has no such pack; known are {}",
                                      io::printable(records.substr(0, 80)), fmt::join(cache::record_formats(), ", ")));
  }
  return pack;
}

}  // namespace

io::Result<Pack> open_pack(const Source& source, const cache::Catalog& catalog, const std::string& records) {
  if (source.is_bucket()) {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          fmt::format("--records: the index of a pack is read from a folder; mount {} and name the "
                                      "mount",
                                      source.path.string()));
  }
  HEADRACE_TRY(path, find_pack(source, catalog, records));
  HEADRACE_TRY(map, cache::open_record_map(source.directory.get(), path, records));
  return Pack{std::move(path), std::move(map)};
}

io::Result<std::unique_ptr<cache::Order>> open_record_order(std::string_view spec, const cache::RecordMap& map,
                                                            ListFiles lists) {
  return cache::make_record_order(spec, map, lists == ListFiles::kRegular);
}

}  // namespace headrace::cli
