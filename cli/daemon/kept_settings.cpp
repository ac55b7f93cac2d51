// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/kept_settings.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace headrace::cli {

io::Result<KeptSettings> KeptSettings::make() {
  io::UniqueFd fd(::memfd_create("headrace-settings", 0));
  if (!fd.valid() || ::ftruncate(fd.get(), sizeof(Page)) != 0) {
    return io::system_error(errno, "memory that the processes of a mount share");
  }
  return take_over(std::move(fd));
}

io::Result<KeptSettings> KeptSettings::take_over(io::UniqueFd fd) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // a lock would be another process's
  ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
  struct stat memory {};
  // An earlier version's has no room for what came later.
  const bool is_short = ::fstat(fd.get(), &memory) == 0 && memory.st_size < static_cast<off_t>(sizeof(Page));
  if (is_short && ::ftruncate(fd.get(), sizeof(Page)) != 0) {
    return io::system_error(errno, "memory that the processes of a mount share");
  }
  void* const page = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (page == MAP_FAILED) return io::system_error(errno, "memory that the processes of a mount share");
  return KeptSettings(std::move(fd), static_cast<Page*>(page));
}

KeptSettings::~KeptSettings() {
  if (page_ != nullptr) ::munmap(page_, sizeof(Page));
}

void KeptSettings::keep_pushed_bytes(std::uint64_t bytes) {
  page_->pushed_bytes_plus_one.store(bytes + 1);
}

void KeptSettings::keep_source_rate(std::uint64_t bytes_per_second) {
  page_->source_rate_plus_one.store(bytes_per_second + 1);
}

std::optional<std::uint64_t> KeptSettings::source_rate() const {
  const std::uint64_t kept = page_->source_rate_plus_one.load();
  return kept > 0 ? std::optional(kept - 1) : std::nullopt;
}

bool KeptSettings::Words::keep(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& word : all) text += word + '\n';
  bytes.store(0);
  if (text.size() > lines.size()) return false;
  std::memcpy(lines.data(), text.data(), text.size());
  bytes.store(text.size());
  return true;
}

std::vector<std::string> KeptSettings::Words::words() const {
  std::istringstream text(std::string(lines.data(), std::min<std::size_t>(bytes.load(), lines.size())));
  std::vector<std::string> all;
  for (std::string word; std::getline(text, word);) all.push_back(word);
  return all;
}

bool KeptSettings::keep_program(const std::filesystem::path& program) {
  const std::string& path = program.native();
  if (path.size() >= page_->program.size()) return false;
  std::memcpy(page_->program.data(), path.c_str(), path.size() + 1);
  return true;
}

std::filesystem::path KeptSettings::program() const {
  return page_->program.data();
}

std::optional<std::uint64_t> KeptSettings::pushed_bytes() const {
  const std::uint64_t kept = page_->pushed_bytes_plus_one.load();
  return kept > 0 ? std::optional(kept - 1) : std::nullopt;
}

}  // namespace headrace::cli
