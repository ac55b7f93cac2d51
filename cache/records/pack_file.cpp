// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/records/pack_file.h"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/io/open_beneath.h"
#include "headrace/io/printable.h"

namespace headrace::cache {

io::Result<PackFile> PackFile::open(int directory_fd, const std::string& path) {
  PackFile pack;
  pack.path_ = path;
  // O_NONBLOCK: a pipe in the place of a pack must not hold us up.
  pack.fd_.reset(io::open_beneath(directory_fd, path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!pack.fd_.valid()) return io::system_error(errno, "open " + io::printable(path));
  struct stat status {};
  if (::fstat(pack.fd_.get(), &status) != 0) return io::system_error(errno, "stat " + io::printable(path));
  if (!S_ISREG(status.st_mode)) return pack.unsupported("is no regular file");
  pack.size_ = static_cast<std::uint64_t>(status.st_size);
  return pack;
}

io::Status PackFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  if (offset > size_ || bytes.size() > size_ - offset) return corrupt("its index ends outside of the file");
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

tl::unexpected<io::Error> PackFile::corrupt(std::string_view what) const {
  return io::make_error(io::ErrorCode::kCorrupt, fmt::format("{}: {}", io::printable(path_), what));
}

tl::unexpected<io::Error> PackFile::unsupported(std::string_view what) const {
  return io::make_error(io::ErrorCode::kUnsupported, fmt::format("{}: {}", io::printable(path_), what));
}

}  // namespace headrace::cache
