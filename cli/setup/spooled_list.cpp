// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/spooled_list.h"

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <vector>

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;

constexpr std::size_t kLineBytesMax = 8192;                      // PATH_MAX is 4096
constexpr std::uint64_t kListBytesMax = std::uint64_t{8} << 30;  // 100 million long paths

}  // namespace

io::Result<fs::path> SpooledList::path_of(const std::string& list) {
  return list == "-" ? read_standard_input() : fs::absolute(list);
}

io::Result<fs::path> SpooledList::read_standard_input() {
  fd_ = io::UniqueFd(::memfd_create("standard-input", MFD_CLOEXEC));
  if (fd_.get() < 0) return io::system_error(errno, "keep the list on standard input");
  const fs::path path = fmt::format("/proc/{}/fd/{}", ::getpid(), fd_.get());
  std::ofstream file(path, std::ios::binary);
  std::vector<char> line(kLineBytesMax);
  std::uint64_t bytes = 0;
  while (file && std::cin.getline(line.data(), static_cast<std::streamsize>(line.size()))) {
    const std::streamsize length = std::cin.gcount() - (std::cin.eof() ? 0 : 1);  // without the line end
    file.write(line.data(), length).put('\n');
    bytes += static_cast<std::uint64_t>(length) + 1;
    if (bytes > kListBytesMax)
      return make_error(ErrorCode::kInvalidArgument, "the list on standard input is longer than 8 GiB");
  }
  if (!std::cin.eof()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the list on standard input has a line of more than {} bytes", kLineBytesMax));
  }
  if (!file.flush()) return make_error(ErrorCode::kNoSpace, "the list on standard input is too long to be kept");
  path_ = path;
  return path;
}

void SpooledList::rename_in(std::string& message) const {
  const std::size_t place = path_.empty() ? std::string::npos : message.find(path_.native());
  if (place != std::string::npos) message.replace(place, path_.native().size(), "on standard input");
}

}  // namespace headrace::cli
