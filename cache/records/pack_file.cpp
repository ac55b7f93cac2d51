// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/records/pack_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/io/open_beneath.h"
#include "headrace/io/printable.h"

namespace headrace::cache {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} * 1024;  // of a table: what a device reads in one go
// Of a walk. 17 million records of 48 bytes take 1 s in place of 25; larger windows bring nothing more.
constexpr std::size_t kWindowBytesMin = 4096;
constexpr std::size_t kWindowBytesMax = std::size_t{64} * 1024;
constexpr std::uint64_t kCloseBytes = 2048;  // two heads at least in the smallest window

}  // namespace

io::Result<PackFile> PackFile::open(int directory_fd, const std::string& path) {
  PackFile pack;
  pack.path_ = path;
  // O_NONBLOCK: a pipe in the place of a pack must not hold us up.
  pack.fd_.reset(io::open_beneath(directory_fd, path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!pack.fd_.valid()) return io::system_error(errno, "open " + io::printable(path));
  struct stat status {};
  if (::fstat(pack.fd_.get(), &status) != 0) return io::system_error(errno, "stat " + io::printable(path));
  if (!S_ISREG(status.st_mode)) return pack.unsupported("is no regular file");
  pack.version_ = io::attributes_from(status);
  return pack;
}

io::Status PackFile::confirm() const {
  HEADRACE_TRY(now, io::attributes_of(fd_.get()));
  if (now == version_) return {};
  return io::make_error(io::ErrorCode::kStale,
                        io::printable(path_) + ": changed while its index was read; try again when it is complete");
}

io::Status PackFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  if (offset > size() || bytes.size() > size() - offset) return corrupt("its index ends outside of the file");
  if (noted_ != nullptr && noted_->size() < kNotedMax) {
    noted_->push_back({.offset = offset, .length = static_cast<std::uint32_t>(bytes.size())});
  }
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io::system_error(errno, "read " + io::printable(path_));
    if (got == 0) return io::make_error(io::ErrorCode::kShortRead, io::printable(path_) + " became shorter");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

io::Status PackFile::read_table(std::uint64_t offset, std::uint64_t entries, std::size_t entry_bytes,
                                const TakeEntry& take) const {
  if (offset > size() || entries > (size() - offset) / entry_bytes) {
    return corrupt("a table of its index ends outside of the file");
  }
  std::vector<std::byte> piece;
  const std::uint64_t at_once = std::max<std::uint64_t>(1, kPieceBytes / entry_bytes);
  for (std::uint64_t first = 0; first < entries; first += at_once) {
    piece.resize(std::min(at_once, entries - first) * entry_bytes);
    HEADRACE_TRY_DO(read(offset + first * entry_bytes, piece));
    for (std::size_t at = 0; at < piece.size(); at += entry_bytes) {
      HEADRACE_TRY_DO(take(std::span(piece).subspan(at, entry_bytes)));
    }
  }
  return {};
}

tl::unexpected<io::Error> PackFile::corrupt(std::string_view what) const {
  return io::make_error(io::ErrorCode::kCorrupt, fmt::format("{}: {}", io::printable(path_), what));
}

tl::unexpected<io::Error> PackFile::unsupported(std::string_view what) const {
  return io::make_error(io::ErrorCode::kUnsupported, fmt::format("{}: {}", io::printable(path_), what));
}

bool PackWalk::has(std::uint64_t offset, std::size_t bytes) const {
  return offset >= window_at_ && offset - window_at_ <= window_.size() &&
         bytes <= window_.size() - (offset - window_at_);
}

// The window begins as a page, which the kernel reads in any case, and grows as long as it pays.
io::Status PackWalk::read(std::uint64_t offset, std::span<std::byte> bytes) {
  const std::uint64_t step = offset - std::min(offset, std::exchange(last_, offset));
  if (!has(offset, bytes.size())) {
    const std::size_t wanted = std::clamp(2 * window_.size(), kWindowBytesMin, kWindowBytesMax);
    const std::uint64_t left = pack_.size() - std::min(offset, pack_.size());
    window_.resize(step == 0 || step > kCloseBytes ? 0 : std::min<std::uint64_t>(wanted, left));
    window_at_ = offset;
    if (bytes.size() > window_.size()) return pack_.read(offset, bytes);
    HEADRACE_TRY_DO(pack_.read(offset, window_));
  }
  std::ranges::copy(std::span(window_).subspan(offset - window_at_, bytes.size()), bytes.begin());
  return {};
}

}  // namespace headrace::cache
