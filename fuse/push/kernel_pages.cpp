// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/kernel_pages.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include <sys/stat.h>

#include "headrace/io/log.h"

namespace headrace::fuse {
using cache::EntryId;
using io::MutexLock;

KernelPages::Storing KernelPages::begin_store(EntryId entry) {
  MutexLock lock(mutex_);
  while (std::ranges::find(forgetting_, entry) != forgetting_.end()) ended_.wait(lock);
  storing_.push_back(entry);
  return {*this, entry};
}

void KernelPages::end_store(EntryId entry) {
  MutexLock lock(mutex_);
  storing_.erase(std::ranges::find(storing_, entry));
  if (!forgetting_.empty()) ended_.notify_all();
}

int KernelPages::store(EntryId entry, std::uint64_t inode, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return 0;
  const int failure = session_->store(inode, offset, bytes);
  if (failure != ENOENT) return failure;
  make_known(entry);
  return session_->store(inode, offset, bytes);
}

void KernelPages::make_known(EntryId entry) const {
  struct stat ignored {};
  const std::filesystem::path path = path_of(entry);
  if (::lstat(path.c_str(), &ignored) == 0) return;
  io::log_debug("{}", io::Error{io::ErrorCode::kSystem, errno, "lstat " + path.string()}.message());
}

void KernelPages::drop(std::uint64_t inode, std::uint64_t offset, std::uint64_t length) {
  [[maybe_unused]] const int ignored = session_->invalidate(inode, offset, length);  // ENOENT: it dropped the inode
}

// It waits where the kernel blocks a store; that ends with the connection at the latest.
void KernelPages::forget(const std::vector<EntryId>& entries) {
  MutexLock lock(mutex_);
  while (!forgetting_.empty()) ended_.wait(lock);
  forgetting_ = entries;
  while (std::ranges::find_first_of(storing_, entries) != storing_.end()) ended_.wait(lock);
  lock.unlock();
  for (const EntryId entry : entries) {
    const std::uint64_t inode = inodes_->of(entry);
    drop(inode, 0, 0);
    if (version_of(inode) == 0) continue;
    const std::string name(catalog_.name(entry));
    // ENOENT: it never knew the file
    [[maybe_unused]] const int ignored = session_->invalidate_name(inodes_->of(catalog_.parent(entry)), name);
  }
  if (on_forgotten_) on_forgotten_(entries);
  lock.lock();
  forgetting_.clear();
  ended_.notify_all();
}

}  // namespace headrace::fuse
