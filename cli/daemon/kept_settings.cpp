// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/kept_settings.h"

#include <cerrno>
#include <new>

#include <sys/mman.h>

namespace headrace::cli {

io::Result<KeptSettings> KeptSettings::make() {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // a lock would be another process's
  void* const page = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return io::system_error(errno, "memory that the processes of a mount share");
  return KeptSettings(new (page) Page{});
}

KeptSettings::~KeptSettings() {
  if (page_ != nullptr) ::munmap(page_, sizeof(Page));
}

void KeptSettings::keep_pushed_bytes(std::uint64_t bytes) {
  page_->pushed_bytes_plus_one.store(bytes + 1);
}

std::optional<std::uint64_t> KeptSettings::pushed_bytes() const {
  const std::uint64_t kept = page_->pushed_bytes_plus_one.load();
  return kept > 0 ? std::optional(kept - 1) : std::nullopt;
}

}  // namespace headrace::cli
