// SPDX-License-Identifier: Apache-2.0
// The rows of a data set of an HDF5 file (the HDF5 File Format Specification, version 3), read without the library:
// a file can be hostile, and where its chunks lie is all that is asked. Messages of a data set:
//
//   dataspace: version, rank, flags; then the dimensions
//   layout:    version 3 or 4, class; contiguous: address, bytes
//              version 3, chunked: rank + 1, address of the tree, dimensions of a chunk, then the bytes of an element
//   tree:      key: u32 stored bytes, u32 filters, rank + 1 offsets; child: address of the chunk
//
// Filters (compression) are no matter: a chunk is what is stored of it.
#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "headrace/cache/records/formats.h"
#include "headrace/cache/records/hdf5_file.h"
#include "headrace/io/printable.h"

namespace headrace::cache {
namespace {

constexpr std::uint16_t kDataspace = 0x01, kDatatype = 0x03, kExternalFiles = 0x07, kLayout = 0x08;
constexpr std::uint8_t kContiguous = 1, kChunked = 2;
constexpr std::uint8_t kVariableLength = 9;
constexpr std::size_t kRankMax = 32;  // H5S_MAX_RANK
// That are looked at for the largest: each costs about three reads of the source, a minute for all where one takes
// 5 ms. Who has more keeps a sample in each, and these have no rows.
constexpr std::size_t kObjectsMax = 4096;
constexpr int kTreeLevelsMax = 16;
constexpr std::uint64_t kChunkBytesMin = 32;  // of one dimension, with its place in the tree
// The chunks of one row may lie apart by as much as they are long: what lies between is pushed as well.
constexpr std::uint64_t kSpreadMost = 2;

using Dimensions = std::vector<std::uint64_t>;

struct DataSet {
  std::string name;
  Dimensions dimensions;
  std::uint64_t bytes = 0;  // without filters
  std::uint64_t address = kNoHdf5Address;
  Dimensions chunk = {};          // and the bytes of an element; empty: contiguous
  std::string_view why_not = {};  // it has no map
};

// nullopt: too large to be true.
std::optional<std::uint64_t> product(std::span<const std::uint64_t> numbers) {
  std::uint64_t result = 1;
  for (const std::uint64_t number : numbers) {
    if (__builtin_mul_overflow(result, number, &result)) return std::nullopt;
  }
  return result;
}

std::optional<Dimensions> dimensions_of(std::span<const std::byte> body) {
  if (body.size() < 4) return std::nullopt;
  const std::size_t rank = std::to_integer<std::size_t>(body[1]);
  const std::size_t first = body[0] == std::byte{1} ? 8 : 4;
  if (rank == 0 || rank > kRankMax || body.size() < first + 8 * rank) return std::nullopt;
  Dimensions dimensions(rank);
  for (std::size_t i = 0; i < rank; ++i) dimensions[i] = little_endian<std::uint64_t>(body, first + 8 * i);
  return dimensions;
}

// What the layout says. False: it is cut off.
bool lay_out(std::span<const std::byte> body, DataSet& set) {
  if (body.size() < 3) return false;
  const auto version = std::to_integer<std::uint8_t>(body[0]);
  const auto kind = std::to_integer<std::uint8_t>(body[1]);
  const std::size_t rank = set.dimensions.size();
  if ((version == 3 || version == 4) && kind == kContiguous) {
    if (body.size() < 18) return false;
    set.address = little_endian<std::uint64_t>(body, 2);
    set.bytes = little_endian<std::uint64_t>(body, 10);
    return true;
  }
  if (version != 3 || kind != kChunked) {
    set.why_not = version == 4 && kind == kChunked ? "has chunks of the newest layout; write it with libver='earliest'"
                                                   : "is neither contiguous nor in chunks";
    return true;
  }
  if (std::to_integer<std::size_t>(body[2]) != rank + 1 || body.size() < 11 + 4 * (rank + 1)) return false;
  set.address = little_endian<std::uint64_t>(body, 3);
  for (std::size_t i = 0; i <= rank; ++i) {
    set.chunk.push_back(little_endian<std::uint32_t>(body, 11 + 4 * i));
    if (set.chunk.back() == 0) return false;
  }
  const std::optional<std::uint64_t> elements = product(set.dimensions);
  return elements && !__builtin_mul_overflow(*elements, set.chunk.back(), &set.bytes);
}

// nullopt: no data set, or one without rows.
io::Result<std::optional<DataSet>> data_set_of(const Hdf5File& file, const std::vector<Hdf5Message>& messages,
                                               const std::string& name) {
  const auto body_of = [&messages](std::uint16_t type) -> const std::vector<std::byte>* {
    const auto found = std::ranges::find(messages, type, &Hdf5Message::type);
    return found == messages.end() ? nullptr : &found->body;
  };
  const std::vector<std::byte>* const layout = body_of(kLayout);
  const std::vector<std::byte>* const space = body_of(kDataspace);
  if (layout == nullptr || space == nullptr) return std::nullopt;
  std::optional<Dimensions> dimensions = dimensions_of(*space);
  if (!dimensions) return std::nullopt;
  DataSet set{.name = name, .dimensions = std::move(*dimensions)};
  if (!lay_out(*layout, set)) {
    return file.pack().corrupt(fmt::format("the layout of {} makes no sense", io::printable(name)));
  }
  const std::vector<std::byte>* const type = body_of(kDatatype);
  // One that has no map is chosen as well: that of a smaller data set is not meant.
  if (!set.why_not.empty() && type != nullptr && type->size() >= 8) {
    const std::uint64_t elements = product(set.dimensions).value_or(0);
    if (__builtin_mul_overflow(elements, little_endian<std::uint32_t>(*type, 4), &set.bytes)) set.bytes = UINT64_MAX;
  }
  const bool is_variable =
      type != nullptr && !type->empty() && (type->front() & std::byte{15}) == std::byte{kVariableLength};
  if (is_variable) set.why_not = "has rows of variable length, which lie elsewhere";
  if (body_of(kExternalFiles) != nullptr) set.why_not = "lies in other files";
  return set;
}

// The named data set, or the largest: rows are samples, and what goes with them (labels, boxes) is smaller.
class Search {
 public:
  Search(const Hdf5File& file, std::string_view name) : file_(file), name_(name) {
    if (name_.starts_with('/')) name_.remove_prefix(1);
  }

  io::Result<DataSet> find() {
    waiting_.push_back({.name = "", .object = file_.root()});
    while (!waiting_.empty() && (name_.empty() || !found_)) {
      const Hdf5Link at = std::move(waiting_.front());
      waiting_.pop_front();
      if (!seen_.insert(at.object).second) continue;  // by another name
      HEADRACE_TRY_DO(look_at(at));
    }
    if (found_) return std::move(*found_);
    return file_.pack().unsupported(
        name_.empty() ? std::string("this HDF5 file has no data set with rows")
                      : fmt::format("it has no data set {} with rows", io::printable(std::string(name_))));
  }

 private:
  io::Status look_at(const Hdf5Link& at) {
    HEADRACE_TRY(messages, file_.messages(at.object));
    HEADRACE_TRY(set, data_set_of(file_, messages, at.name));
    if (set) {
      if (name_.empty() ? !found_ || set->bytes > found_->bytes : at.name == name_) found_ = std::move(*set);
      return {};
    }
    HEADRACE_TRY(links, file_.links(messages));
    for (Hdf5Link& link : links) {
      link.name = at.name.empty() ? link.name : at.name + "/" + link.name;
      if (link.name.size() >= kNameBytesMax || !is_on_the_way(link.name)) continue;
      if (seen_.size() + waiting_.size() >= kObjectsMax) {
        return file_.pack().unsupported(
            fmt::format("it has more than {} groups and data sets; name the one that is read: hdf5:NAME", kObjectsMax));
      }
      waiting_.push_back(std::move(link));
    }
    return {};
  }

  [[nodiscard]] bool is_on_the_way(std::string_view path) const {
    return name_.empty() || name_ == path || (name_.starts_with(path) && name_[path.size()] == '/');
  }

  static constexpr std::size_t kNameBytesMax = 4096;  // as of a path; times kObjectsMax
  const Hdf5File& file_;
  std::string_view name_;
  std::deque<Hdf5Link> waiting_;
  std::set<std::uint64_t> seen_;
  std::optional<DataSet> found_;
};

// The chunks of one data set, as its tree has them: by their offsets. Record i is what the chunks of the rows
// i * rows_per_record .. hold, from the first to the last one's end.
class ChunkWalk {
 public:
  ChunkWalk(const Hdf5File& file, const DataSet& set)
      : file_(file), set_(set), rank_(set.dimensions.size()), map_(file.pack().size()) {}

  io::Result<RecordMap> walk() {
    if (set_.address != kNoHdf5Address) HEADRACE_TRY_DO(visit(set_.address, std::nullopt));
    const std::uint64_t rows = set_.dimensions.front();
    HEADRACE_TRY_DO(end_records(rows / set_.chunk.front() + (rows % set_.chunk.front() != 0 ? 1 : 0)));
    map_.set_rows(rows, set_.chunk.front());
    return std::move(map_);
  }

 private:
  io::Status visit(std::uint64_t address, std::optional<std::uint8_t> level) {
    HEADRACE_TRY(node, file_.node(address, 1, 8 + 8 * (rank_ + 1)));
    // No node but the root is empty, so that each visit comes to new chunks: their offsets rise.
    if (node.level > kTreeLevelsMax || (level && (node.level != *level || node.entries == 0))) return bad_tree();
    for (std::size_t i = 0; i < node.entries; ++i) {
      const auto child = little_endian<std::uint64_t>(node.entry(i), 8 + 8 * (rank_ + 1));
      HEADRACE_TRY_DO(node.level > 0 ? visit(child, node.level - 1) : take(node.entry(i), child));
    }
    return {};
  }

  io::Status take(std::span<const std::byte> key, std::uint64_t address) {
    Dimensions offsets(rank_);
    for (std::size_t i = 0; i < rank_; ++i) {
      offsets[i] = little_endian<std::uint64_t>(key, 8 + 8 * i);
      if (offsets[i] >= set_.dimensions[i] || offsets[i] % set_.chunk[i] != 0) return bad_tree();
    }
    if (!before_.empty() && offsets <= before_) return bad_tree();
    const std::uint64_t record = offsets.front() / set_.chunk.front();
    const std::uint64_t length = little_endian<std::uint32_t>(key, 0);
    const std::uint64_t file_bytes = file_.pack().size();
    if (address > file_bytes - file_.base() || length > file_bytes - file_.base() - address) {
      return file_.pack().corrupt("a chunk of this HDF5 file lies outside of it");
    }
    HEADRACE_TRY_DO(end_records(record));
    const std::uint64_t begin = file_.base() + address;
    begin_ = stored_ == 0 ? begin : std::min(begin_, begin);
    end_ = stored_ == 0 ? begin + length : std::max(end_, begin + length);
    stored_ += length;
    before_ = std::move(offsets);
    return {};
  }

  // Those before `next` are complete. What was never written has no bytes.
  io::Status end_records(std::uint64_t next) {
    if (map_.count() == next) return {};
    if (next > file_.pack().size() / kChunkBytesMin) {
      return file_.pack().corrupt("this HDF5 file says more rows than it has room for");
    }
    if (stored_ != 0 && end_ - begin_ > kSpreadMost * stored_) {
      return file_.pack().unsupported(fmt::format(
          "a row of {} lies in several chunks far apart; chunks of whole rows have a map", io::printable(set_.name)));
    }
    const io::Status added = stored_ != 0 ? map_.add(begin_, end_ - begin_) : map_.add(0, 0);
    if (!added) return file_.pack().corrupt(added.error().context);
    stored_ = 0;
    while (map_.count() < next) HEADRACE_TRY_DO(map_.add(0, 0));
    return {};
  }

  [[nodiscard]] tl::unexpected<io::Error> bad_tree() const {
    return file_.pack().corrupt("the chunks of this HDF5 file make no sense");
  }

  const Hdf5File& file_;
  const DataSet& set_;
  const std::size_t rank_;
  RecordMap map_;
  Dimensions before_;         // offsets of the last chunk
  std::uint64_t begin_ = 0;   // of the record that is not complete yet
  std::uint64_t end_ = 0;     // and its end
  std::uint64_t stored_ = 0;  // bytes of its chunks
};

io::Result<RecordMap> map_contiguous(const Hdf5File& file, const DataSet& set) {
  const std::uint64_t rows = set.dimensions.front();
  if (set.address == kNoHdf5Address) {
    return file.pack().unsupported(fmt::format("{} has no rows yet", io::printable(set.name)));
  }
  if (set.bytes % rows != 0 || set.address > file.pack().size() - file.base()) {
    return file.pack().corrupt("the rows of this HDF5 file lie outside of it");
  }
  auto map = RecordMap::strided(file.pack().size(), file.base() + set.address, set.bytes / rows, rows);
  if (!map) return file.pack().corrupt(map.error().context);
  return map;
}

}  // namespace

bool begins_hdf5(std::span<const std::byte> head) {
  const auto is_at = [head](std::size_t at) {
    const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
    return at < text.size() && text.substr(at).starts_with(Hdf5File::kSignature);
  };
  return is_at(0) || is_at(Hdf5File::kUserBlockBytes);
}

io::Result<RecordMap> map_hdf5(const PackFile& pack, std::string_view name) {
  HEADRACE_TRY(file, Hdf5File::open(pack));
  HEADRACE_TRY(set, Search(file, name).find());
  if (!set.why_not.empty()) {
    return pack.unsupported(fmt::format("{} {}", io::printable(set.name), set.why_not));
  }
  const std::uint64_t rows = set.dimensions.front();
  if (rows == 0) return pack.unsupported(fmt::format("{} has no rows yet", io::printable(set.name)));
  if (rows > kRecordsMax) return pack.unsupported(fmt::format("{} has too many rows", io::printable(set.name)));
  return set.chunk.empty() ? map_contiguous(file, set) : ChunkWalk(file, set).walk();
}

}  // namespace headrace::cache
