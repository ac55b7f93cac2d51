// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/record_map.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "headrace/cache/records/formats.h"
#include "headrace/io/printable.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;

// What a format is recognised by.
struct Probe {
  int directory_fd = -1;
  const PackFile& pack;
  std::string extension;
  std::span<const std::byte> head;  // of the file; kHeadBytes, or all of a shorter file

  [[nodiscard]] bool begins_with(std::string_view magic, std::size_t at = 0) const {
    return at + magic.size() <= head.size() && std::memcmp(head.data() + at, magic.data(), magic.size()) == 0;
  }
  template <typename Number>
  [[nodiscard]] bool has_number(Number number, std::size_t at) const {
    return at + sizeof(Number) <= head.size() && little_endian<Number>(head, at) == number;
  }
};

// Of an index: what is fetched in one go. Pages of a tree that lie side by side are one range.
constexpr std::uint64_t kIndexRangeMax = std::uint64_t{1} << 20;
constexpr std::size_t kHeadBytes = 520;  // a header of tar, whose magic comes late, or what MATLAB puts before HDF5

std::string index_path(const std::string& path) {
  return std::filesystem::path(path).replace_extension(".idx").string();
}

bool has_megatron_index(const Probe& probe) {
  const io::Result<PackFile> index = PackFile::open(probe.directory_fd, index_path(probe.pack.path()));
  std::array<char, 9> magic{};
  return index && index->read(0, std::as_writable_bytes(std::span(magic))) &&
         std::string_view(magic.data(), magic.size()) == std::string_view("MMIDIDX\0\0", 9);
}

// A table that begins behind itself and ends with the file: nothing else in a .bin looks like that.
bool is_litdata(const Probe& probe) {
  if (probe.extension != ".bin" || probe.head.size() < 8) return false;
  const std::uint64_t samples = little_endian<std::uint32_t>(probe.head, 0);
  std::array<std::byte, 4> end{};
  return samples > 0 && little_endian<std::uint32_t>(probe.head, 4) == 4 * (samples + 2) &&
         probe.pack.read(4 * (samples + 1), end) && little_endian<std::uint32_t>(end, 0) == probe.pack.size();
}

struct Format {
  std::string_view name;
  bool (*recognises)(const Probe& probe);
  io::Result<RecordMap> (*map)(const PackFile& pack);
  io::Result<RecordMap> (*map_by_index)(const PackFile& pack, const PackFile& index);  // the .idx beside it
  // For packs of several data sets; an empty name is the one that is meant if nobody says.
  io::Result<RecordMap> (*map_named)(const PackFile& pack, std::string_view name) = nullptr;
  // Programs go the way through the pack that its map is made by: the pages of a tree, which lie between the records.
  bool has_tree = false;
};

constexpr std::array kFormats = {
    Format{"npy", [](const Probe& probe) { return probe.begins_with("\x93NUMPY"); }, map_npy, nullptr},
    Format{"lmdb", [](const Probe& probe) { return probe.has_number(std::uint32_t{0xBEEFC0DE}, 16); }, map_lmdb,
           nullptr, nullptr, true},
    Format{"hdf5", [](const Probe& probe) { return begins_hdf5(probe.head); }, nullptr, nullptr, map_hdf5, true},
    Format{
        "recordio",
        [](const Probe& probe) { return probe.extension == ".rec" && probe.has_number(std::uint32_t{0xced7230a}, 0); },
        nullptr, map_recordio},
    Format{"tar", [](const Probe& probe) { return probe.begins_with("ustar", 257); }, map_tar, nullptr},
    Format{"arrow",
           [](const Probe& probe) {
             return probe.begins_with("ARROW1") ||
                    (probe.extension == ".arrow" && probe.has_number(std::uint32_t{UINT32_MAX}, 0));
           },
           map_arrow, nullptr},
    Format{"ffcv",
           [](const Probe& probe) { return probe.extension == ".beton" && probe.has_number(std::uint16_t{2}, 0); },
           map_ffcv, nullptr},
    Format{"megatron", [](const Probe& probe) { return probe.extension == ".bin" && has_megatron_index(probe); },
           nullptr, map_megatron},
    Format{"mds", [](const Probe& probe) { return probe.extension == ".mds"; }, map_mds, nullptr},
    Format{"litdata", is_litdata, map_mds, nullptr},
    Format{"tfrecord", [](const Probe& probe) { return begins_tfrecord(probe.head); }, map_tfrecord, nullptr},
};

const Format* format_named(std::string_view name) {
  const auto* const found = std::ranges::find(kFormats, name, &Format::name);
  return found == kFormats.end() ? nullptr : found;
}

// nullptr: no pack that is known.
io::Result<const Format*> format_of(int directory_fd, const PackFile& pack) {
  std::array<std::byte, kHeadBytes> head{};
  const std::size_t bytes = std::min<std::uint64_t>(head.size(), pack.size());
  HEADRACE_TRY_DO(pack.read(0, std::span(head).first(bytes)));
  const Probe probe{.directory_fd = directory_fd,
                    .pack = pack,
                    .extension = std::filesystem::path(pack.path()).extension().string(),
                    .head = std::span(head).first(bytes)};
  for (const Format& format : kFormats) {
    if (format.recognises(probe)) return &format;
  }
  return nullptr;
}

std::string names_of_formats() {
  std::string names;
  for (const Format& format : kFormats) names += (names.empty() ? "" : ", ") + std::string(format.name);
  return names;
}

tl::unexpected<io::Error> bad_spec(std::string_view spec) {
  return io::make_error(ErrorCode::kInvalidArgument,
                        fmt::format("records '{}' is unknown; write auto, {}, hdf5:NAME or "
                                    "stride=BYTES,offset=BYTES",
                                    io::printable(std::string(spec.substr(0, 80))), names_of_formats()));
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

// Without another file. `format`: null for rows of one size.
io::Result<RecordMap> map_alone(const Format* format, const PackFile& pack, std::string_view spec,
                                std::string_view name) {
  if (format == nullptr) return map_stride(pack, spec);
  return format->map_named != nullptr ? format->map_named(pack, name) : format->map(pack);
}

}  // namespace

io::Result<RecordMap> RecordMap::strided(std::uint64_t file_bytes, std::uint64_t first, std::uint64_t record_bytes,
                                         std::uint64_t count) {
  if (record_bytes == 0 || record_bytes > std::numeric_limits<std::uint32_t>::max() || count > kRecordsMax) {
    return io::make_error(ErrorCode::kInvalidArgument,
                          fmt::format("{} records of {} bytes are no pack", count, record_bytes));
  }
  if (first > file_bytes || count > (file_bytes - first) / record_bytes) {
    return io::make_error(ErrorCode::kCorrupt, "records lie outside of the file");
  }
  RecordMap map(file_bytes);
  map.first_ = first;
  map.record_bytes_ = static_cast<std::uint32_t>(record_bytes);
  map.strided_count_ = count;
  return map;
}

io::Status RecordMap::add(std::uint64_t offset, std::uint64_t length) {
  if (offset > file_bytes_ || length > file_bytes_ - offset) {
    return io::make_error(ErrorCode::kCorrupt, "a record lies outside of the file");
  }
  if (length > std::numeric_limits<std::uint32_t>::max() || offsets_.size() >= kRecordsMax) {
    return io::make_error(ErrorCode::kInvalidArgument, "a record of 4 GiB, or too many records");
  }
  offsets_.push_back(offset);
  lengths_.push_back(length);
  return {};
}

io::Result<RecordMap> RecordMap::adjoining(std::uint64_t file_bytes, std::vector<std::uint64_t> offsets,
                                           std::uint64_t record_bytes_min) {
  if (offsets.size() > kRecordsMax) return io::make_error(ErrorCode::kInvalidArgument, "too many records");
  std::vector<std::uint32_t> places;  // by offset; empty: they are in order
  if (!std::ranges::is_sorted(offsets)) {
    places.resize(offsets.size());
    std::iota(places.begin(), places.end(), 0U);
    std::ranges::sort(places, {}, [&](std::uint32_t place) { return offsets[place]; });
  }
  RecordMap map(file_bytes);
  std::vector<std::uint32_t> lengths(offsets.size());
  std::uint64_t begin = file_bytes;
  std::uint64_t end = file_bytes;
  for (std::size_t i = offsets.size(); i-- > 0;) {
    const std::size_t place = places.empty() ? i : places[i];
    if (offsets[place] != begin) end = std::exchange(begin, offsets[place]);
    if (begin > end || end - begin < record_bytes_min || end - begin > std::numeric_limits<std::uint32_t>::max()) {
      return io::make_error(ErrorCode::kCorrupt, "an offset lies outside of the file, or too near to the next one");
    }
    lengths[place] = static_cast<std::uint32_t>(end - begin);
  }
  for (const std::uint64_t offset : offsets) map.offsets_.push_back(offset);
  for (const std::uint32_t length : lengths) map.lengths_.push_back(length);
  return map;
}

void RecordMap::renumber(const std::vector<std::uint32_t>& numbers) {
  HEADRACE_ASSERT(numbers.size() == offsets_.size());
  std::vector<std::uint32_t> places(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) places[numbers[i]] = static_cast<std::uint32_t>(i);
  PackedNumbers offsets;
  PackedNumbers lengths;
  for (const std::uint32_t place : places) {
    offsets.push_back(offsets_[place]);
    lengths.push_back(lengths_[place]);
  }
  offsets_ = std::move(offsets);
  lengths_ = std::move(lengths);
}

void RecordMap::set_rows(std::uint64_t rows, std::uint64_t per_record) {
  HEADRACE_ASSERT(per_record > 0 && count() == rows / per_record + (rows % per_record != 0 ? 1 : 0));
  rows_ = rows;
  rows_per_record_ = per_record;
}

void RecordMap::set_index(std::vector<RecordExtent> ranges) {
  std::ranges::sort(ranges, {}, &RecordExtent::offset);
  index_.clear();
  for (const RecordExtent& range : ranges) {
    HEADRACE_ASSERT(range.offset <= file_bytes_ && range.length <= file_bytes_ - range.offset);
    if (range.length == 0) continue;
    const std::uint64_t last_end = index_.empty() ? 0 : index_.back().offset + index_.back().length;
    const std::uint64_t end = std::max(last_end, range.offset + range.length);
    if (!index_.empty() && range.offset <= last_end && end - index_.back().offset <= kIndexRangeMax) {
      index_.back().length = static_cast<std::uint32_t>(end - index_.back().offset);
    } else if (index_.empty() || end > last_end) {
      index_.push_back({.offset = std::max(range.offset, last_end), .length = 0});
      index_.back().length = static_cast<std::uint32_t>(end - index_.back().offset);
    }
  }
}

RecordExtent RecordMap::extent(std::uint64_t record) const {
  HEADRACE_ASSERT(record < count());
  if (record_bytes_ != 0) return {.offset = first_ + record * record_bytes_, .length = record_bytes_};
  return {.offset = offsets_[record], .length = static_cast<std::uint32_t>(lengths_[record])};
}

RecordPlaces::RecordPlaces(const RecordMap& map) : map_(map) {
  const auto count = static_cast<std::uint32_t>(map.count());  // kRecordsMax at most
  const auto lies_before_next = [&map](std::uint32_t record) {
    return map.extent(record).offset <= map.extent(record + 1).offset;
  };
  std::uint32_t record = 0;
  while (record + 1 < count && lies_before_next(record)) ++record;
  if (record + 1 >= count) return;
  by_offset_.resize(count);
  std::iota(by_offset_.begin(), by_offset_.end(), 0U);
  std::ranges::sort(by_offset_, {}, [&map](std::uint32_t each) { return map.extent(each).offset; });
}

std::vector<std::uint32_t> RecordPlaces::in_range(std::uint64_t offset, std::uint64_t length, std::size_t most) const {
  std::size_t first = 0;
  std::size_t end = map_.count();
  while (first < end) {  // the first that does not end before the range
    const std::size_t middle = first + (end - first) / 2;
    const RecordExtent extent = map_.extent(at(middle));
    if (extent.offset + extent.length <= offset) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  std::vector<std::uint32_t> records;
  for (std::size_t place = first; place < map_.count() && records.size() < most; ++place) {
    const RecordExtent extent = map_.extent(at(place));
    if (extent.offset >= offset + length) break;
    if (extent.length > 0 && extent.offset + extent.length > offset) records.push_back(at(place));
  }
  return records;
}

std::vector<std::string_view> record_formats() {
  std::vector<std::string_view> names(kFormats.size());
  std::ranges::transform(kFormats, names.begin(), &Format::name);
  return names;
}

io::Result<std::string> record_format_of(int directory_fd, const std::string& path) {
  HEADRACE_TRY(pack, PackFile::open(directory_fd, path));
  HEADRACE_TRY(format, format_of(directory_fd, pack));
  return std::string(format == nullptr ? std::string_view() : format->name);
}

std::string_view record_format_in(std::string_view spec) {
  const std::string_view name = spec.substr(0, spec.find(':'));
  const Format* const format = format_named(name);
  return format == nullptr ? std::string_view() : format->name;
}

io::Result<RecordMap> open_record_map(int directory_fd, const std::string& path, std::string_view spec) {
  HEADRACE_TRY(pack, PackFile::open(directory_fd, path));
  const std::size_t colon = std::min(spec.find(':'), spec.size());
  const std::string_view name = spec.substr(std::min(colon + 1, spec.size()));  // of a data set in the pack
  const bool is_stride = spec.starts_with("stride=");
  const Format* format = is_stride ? nullptr : format_named(spec.substr(0, colon));
  if (!is_stride && format == nullptr) {
    if (spec != "auto") return bad_spec(spec);
    HEADRACE_TRY(found, format_of(directory_fd, pack));
    if (found == nullptr) return pack.unsupported("is no pack that is known");
    format = found;
  }
  if (colon < spec.size() && (format == nullptr || format->map_named == nullptr || name.empty())) return bad_spec(spec);
  if (format == nullptr || format->map_by_index == nullptr) {
    std::vector<RecordExtent> reads;
    if (format != nullptr && format->has_tree) pack.note_reads(&reads);
    HEADRACE_TRY(map, map_alone(format, pack, spec, name));
    map.set_index(std::move(reads));
    HEADRACE_TRY_DO(pack.confirm());
    map.set_made_from(pack.version());
    return map;
  }
  HEADRACE_TRY(index, PackFile::open(directory_fd, index_path(path)));
  HEADRACE_TRY(map, format->map_by_index(pack, index));
  HEADRACE_TRY_DO(pack.confirm());
  HEADRACE_TRY_DO(index.confirm());
  map.set_made_from(pack.version());
  return map;
}

}  // namespace headrace::cache
