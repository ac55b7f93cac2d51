// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/opening_profile.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "headrace/cache/catalog/draft.h"
#include "headrace/io/unique_fd.h"
#include "headrace/io/write_all.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;

struct OpeningHeader {
  static constexpr std::uint64_t kMagic = 0x676e696e65706f72;  // "ropening", read as a little-endian number
  static constexpr std::uint32_t kVersion = 1;
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t file_count = 0;
  std::uint64_t hash = 0;  // XXH3-64 of what follows
};
static_assert(sizeof(OpeningHeader) == 24);

struct OpeningRow {
  std::uint32_t path_bytes = 0;
  std::uint32_t range_count = 0;
  Identity identity;
};
static_assert(sizeof(OpeningRow) == 40);

constexpr std::size_t kRangeBytes = 12;
// What save() writes at most, with paths of the longest kind: a file beyond that is not ours, and is not read.
constexpr std::uint64_t kFileBytesMax = sizeof(OpeningHeader) + OpeningProfile::kRangesMax * kRangeBytes +
                                        OpeningProfile::kFilesMax * (sizeof(OpeningRow) + PATH_MAX);

template <typename T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto from = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), from.begin(), from.end());
}

void append(std::vector<std::byte>& bytes, const FileOpening& opening) {
  append(bytes, OpeningRow{.path_bytes = static_cast<std::uint32_t>(opening.path.size()),
                           .range_count = static_cast<std::uint32_t>(opening.ranges.size()),
                           .identity = opening.identity});
  const auto path = std::as_bytes(std::span(opening.path));
  bytes.insert(bytes.end(), path.begin(), path.end());
  for (const ChunkRange& range : opening.ranges) {
    append(bytes, range.offset);
    append(bytes, static_cast<std::uint32_t>(range.length));
  }
}

// Takes values from the front of what is left; nullopt once there is too little.
class Taker {
 public:
  explicit Taker(std::span<const std::byte> bytes) : left_(bytes) {}

  [[nodiscard]] std::size_t left() const { return left_.size(); }
  [[nodiscard]] std::optional<std::span<const std::byte>> take(std::size_t count) {
    if (count > left_.size()) return std::nullopt;
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  template <typename T>
  [[nodiscard]] std::optional<T> take() {
    const auto bytes = take(sizeof(T));
    if (!bytes) return std::nullopt;
    T value;
    std::memcpy(&value, bytes->data(), sizeof value);
    return value;
  }

 private:
  std::span<const std::byte> left_;
};

std::optional<FileOpening> take_file(Taker& taker) {
  const auto row = taker.take<OpeningRow>();
  if (!row || row->path_bytes == 0 || row->path_bytes >= PATH_MAX) return std::nullopt;
  const auto path = taker.take(row->path_bytes);
  if (!path || row->range_count > taker.left() / kRangeBytes) return std::nullopt;
  FileOpening opening{
      .path = {reinterpret_cast<const char*>(path->data()), path->size()}, .identity = row->identity, .ranges = {}};
  opening.ranges.reserve(row->range_count);
  for (std::uint32_t i = 0; i < row->range_count; ++i) {
    const auto offset = taker.take<std::uint64_t>();
    const auto length = taker.take<std::uint32_t>();
    const std::uint64_t size = row->identity.size_bytes;
    if (!length || *length == 0 || *length > OpeningProfile::kRangeBytesMax) return std::nullopt;
    if (*offset > size || *length > size - *offset) return std::nullopt;
    opening.ranges.push_back({*offset, *length});
  }
  return opening;
}

tl::unexpected<io::Error> corrupt() {
  return io::make_error(ErrorCode::kCorrupt, "is damaged, or no opening profile");
}

Result<std::vector<std::byte>> read_whole(const std::filesystem::path& file) {
  const io::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) return io::system_error(errno, file.string());
  if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) > kFileBytesMax) return corrupt();
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = ::read(fd.get(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io::system_error(errno, file.string());
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace

const FileOpening* OpeningProfile::find(std::string_view path, const Identity& identity) const {
  const auto found = std::ranges::find(files, path, &FileOpening::path);
  return found != files.end() && found->identity == identity ? &*found : nullptr;
}

void OpeningProfile::put(FileOpening opening) {
  std::erase_if(files, [&](const FileOpening& each) { return each.path == opening.path; });
  files.push_back(std::move(opening));
  std::size_t kept = range_count();
  auto first = files.begin();
  for (; kept > kRangesMax || files.end() - first > static_cast<std::ptrdiff_t>(kFilesMax); ++first)
    kept -= first->ranges.size();
  files.erase(files.begin(), first);
}

std::size_t OpeningProfile::range_count() const {
  std::size_t count = 0;
  for (const FileOpening& each : files) count += each.ranges.size();
  return count;
}

Status OpeningProfile::save(const std::filesystem::path& file) const {
  std::vector<std::byte> bytes(sizeof(OpeningHeader));
  OpeningHeader header{.file_count = static_cast<std::uint32_t>(files.size())};
  for (const FileOpening& each : files) append(bytes, each);
  header.hash = XXH3_64bits(bytes.data() + sizeof header, bytes.size() - sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
  Draft draft(file);
  if (draft.fd() < 0) return io::system_error(errno, "write " + file.string());
  HEADRACE_TRY_DO(io::write_all(draft.fd(), bytes, 0, file.string()));
  return draft.rename_to(file);
}

Result<OpeningProfile> OpeningProfile::parse(std::span<const std::byte> bytes) {
  Taker taker(bytes);
  const auto header = taker.take<OpeningHeader>();
  if (!header || header->magic != OpeningHeader::kMagic) return corrupt();
  if (header->version != OpeningHeader::kVersion) {
    return io::make_error(ErrorCode::kUnsupported, "is of another version of headrace");
  }
  const auto rest = bytes.subspan(sizeof(OpeningHeader));
  if (header->hash != XXH3_64bits(rest.data(), rest.size()) || header->file_count > kFilesMax) return corrupt();
  OpeningProfile profile;
  for (std::uint32_t i = 0; i < header->file_count; ++i) {
    std::optional<FileOpening> opening = take_file(taker);
    if (!opening) return corrupt();
    profile.files.push_back(std::move(*opening));
  }
  if (taker.left() > 0 || profile.range_count() > kRangesMax) return corrupt();
  return profile;
}

Result<OpeningProfile> OpeningProfile::load(const std::filesystem::path& file) {
  HEADRACE_TRY(bytes, read_whole(file));
  return parse(bytes);
}

}  // namespace headrace::cache
