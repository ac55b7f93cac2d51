// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/places.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include <fmt/core.h>
#include <unistd.h>
#include <xxhash.h>

#include "headrace/io/own_folders.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
constexpr int kSymlinksMax = 40;  // the kernel's limit, too

}  // namespace

fs::path canonical_path(const fs::path& path) {
  std::error_code failure;
  fs::path current = fs::absolute(path, failure).lexically_normal();
  if (!current.has_filename()) current = current.parent_path();  // a trailing slash
  for (int depth = 0; depth < kSymlinksMax; ++depth) {
    const fs::path parent = fs::weakly_canonical(current.parent_path(), failure);
    current = (failure ? current.parent_path() : parent) / current.filename();
    const fs::path target = fs::read_symlink(current, failure);
    if (failure) break;
    current = (current.parent_path() / target).lexically_normal();
    if (!current.has_filename()) current = current.parent_path();
  }
  return current;
}

std::string file_name_for(std::string_view readable, std::string_view identity, std::string_view ending) {
  constexpr std::size_t kReadablePart = 32;  // socket paths may have 107 characters in all
  std::string name(readable.substr(0, kReadablePart));
  for (char& letter : name) {
    const bool plain = (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                       (letter >= 'A' && letter <= 'Z') || letter == '-' || letter == '_';
    if (!plain) letter = '_';
  }
  return fmt::format("{}-{:016x}{}", name, XXH3_64bits(identity.data(), identity.size()), ending);
}

io::Result<fs::path> control_socket_of(const fs::path& mount_point) {
  const fs::path path = canonical_path(mount_point);
  return io::runtime_directory().map([&](const fs::path& directory) {
    return directory / file_name_for(path.filename().native(), path.native(), ".sock");
  });
}

io::Status use_own_runtime_folder() {
  HEADRACE_TRY(shared, io::runtime_directory());
  const fs::path own = shared / fmt::format("run-{}", ::getpid());
  // NOLINTNEXTLINE(concurrency-mt-unsafe): this process has one thread
  if (::setenv("HEADRACE_RUNTIME_DIR", own.c_str(), 1) != 0) return io::system_error(errno, "setenv");
  return io::runtime_directory().map([](const fs::path&) {});
}

void remove_own_runtime_folder() {
  if (const io::Result<fs::path> folder = io::runtime_directory()) ::rmdir(folder->c_str());
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace headrace::cli
