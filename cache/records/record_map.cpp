// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/record_map.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "headrace/cache/records/formats.h"
#include "headrace/io/printable.h"

namespace headrace::cache {
namespace {

constexpr std::size_t kMagicBytes = 20;  // LMDB's comes after a page header of 16 bytes

std::string extension_of(const std::string& path) {
  return std::filesystem::path(path).extension().string();
}

io::Result<std::string> format_of(const PackFile& pack) {
  std::array<std::byte, kMagicBytes> head{};
  if (pack.size() < head.size()) return std::string();
  HEADRACE_TRY_DO(pack.read(0, head));
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (text.starts_with("\x93NUMPY")) return std::string("npy");
  if (little_endian<std::uint32_t>(head, 16) == 0xBEEFC0DE) return std::string("lmdb");
  if (extension_of(pack.path()) == ".rec" && little_endian<std::uint32_t>(head, 0) == 0xced7230a) {
    return std::string("recordio");
  }
  return std::string();
}

tl::unexpected<io::Error> bad_spec(std::string_view spec) {
  return io::make_error(
      io::ErrorCode::kInvalidArgument,
      fmt::format("--records '{}' is unknown; write auto, npy, lmdb, recordio or stride=BYTES,offset=BYTES",
                  io::printable(std::string(spec.substr(0, 80)))));
}

// "name=NUMBER", which is cut off `text` with the comma after it.
bool take_number(std::string_view& text, std::string_view name, std::uint64_t& number) {
  if (!text.starts_with(name)) return false;
  text.remove_prefix(name.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with(',') && text.size() > 1) text.remove_prefix(1);
  return true;
}

io::Result<RecordMap> map_stride(const PackFile& pack, std::string_view spec) {
  std::string_view rest = spec;
  std::uint64_t stride = 0;
  std::uint64_t offset = 0;
  if (!take_number(rest, "stride=", stride) || (!rest.empty() && !take_number(rest, "offset=", offset)) ||
      !rest.empty() || stride == 0) {
    return bad_spec(spec);
  }
  if (offset > pack.size() || (pack.size() - offset) % stride != 0) {
    return pack.corrupt(
        fmt::format("{} bytes after offset {} are no whole records of {}", pack.size(), offset, stride));
  }
  auto map = RecordMap::strided(pack.size(), offset, stride, (pack.size() - offset) / stride);
  if (!map) return pack.corrupt(map.error().context);
  return map;
}

}  // namespace

io::Result<RecordMap> RecordMap::strided(std::uint64_t file_bytes, std::uint64_t first, std::uint64_t record_bytes,
                                         std::uint64_t count) {
  if (record_bytes == 0 || record_bytes > std::numeric_limits<std::uint32_t>::max() || count > kRecordsMax) {
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          fmt::format("{} records of {} bytes are no pack", count, record_bytes));
  }
  if (first > file_bytes || count > (file_bytes - first) / record_bytes) {
    return io::make_error(io::ErrorCode::kCorrupt, "records lie outside of the file");
  }
  RecordMap map(file_bytes);
  map.first_ = first;
  map.record_bytes_ = static_cast<std::uint32_t>(record_bytes);
  map.strided_count_ = count;
  return map;
}

io::Status RecordMap::add(std::uint64_t offset, std::uint64_t length) {
  if (offset > file_bytes_ || length > file_bytes_ - offset) {
    return io::make_error(io::ErrorCode::kCorrupt, "a record lies outside of the file");
  }
  if (length > std::numeric_limits<std::uint32_t>::max() || offsets_.size() >= kRecordsMax) {
    return io::make_error(io::ErrorCode::kInvalidArgument, "a record of 4 GiB, or too many records");
  }
  offsets_.push_back(offset);
  lengths_.push_back(static_cast<std::uint32_t>(length));
  return {};
}

void RecordMap::renumber(const std::vector<std::uint32_t>& numbers) {
  HEADRACE_ASSERT(numbers.size() == offsets_.size());
  std::vector<std::uint64_t> offsets(offsets_.size());
  std::vector<std::uint32_t> lengths(lengths_.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    offsets[numbers[i]] = offsets_[i];
    lengths[numbers[i]] = lengths_[i];
  }
  offsets_ = std::move(offsets);
  lengths_ = std::move(lengths);
}

RecordExtent RecordMap::extent(std::uint64_t record) const {
  HEADRACE_ASSERT(record < count());
  if (record_bytes_ != 0) return {.offset = first_ + record * record_bytes_, .length = record_bytes_};
  return {.offset = offsets_[record], .length = lengths_[record]};
}

io::Result<std::string> record_format_of(int directory_fd, const std::string& path) {
  HEADRACE_TRY(pack, PackFile::open(directory_fd, path));
  return format_of(pack);
}

io::Result<RecordMap> open_record_map(int directory_fd, const std::string& path, std::string_view spec) {
  HEADRACE_TRY(pack, PackFile::open(directory_fd, path));
  if (spec.starts_with("stride=")) return map_stride(pack, spec);
  if (spec != "auto" && spec != "npy" && spec != "lmdb" && spec != "recordio") return bad_spec(spec);
  HEADRACE_TRY(format, format_of(pack));
  if (format.empty()) return pack.unsupported("is no pack that is known");
  if (spec != "auto" && spec != format) return pack.unsupported(fmt::format("is {}, not {}", format, spec));
  if (format == "npy") return map_npy(pack);
  if (format == "lmdb") return map_lmdb(pack);
  HEADRACE_TRY(index, PackFile::open(directory_fd, std::filesystem::path(path).replace_extension(".idx").string()));
  return map_recordio(pack, index);
}

}  // namespace headrace::cache
