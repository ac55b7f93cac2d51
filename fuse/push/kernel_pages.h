// SPDX-License-Identifier: Apache-2.0
// What the pusher tells the kernel: bytes for its page cache, and what is to go from there.
//
//   KernelPages pages(catalog, inodes, mounted_at);
//   pages.attach(session, {});
//   const auto storing = pages.begin_store(entry);   // then see whether the bytes are those of the file as it is now
//   pages.store(entry, inode, 0, bytes);
//   pages.drop(inode, 0, bytes.size());
//   pages.forget(entries);                           // they have changed
//
// Thread-safety: every function from any thread after attach(). All may block while the kernel has a page locked for a
// READ, so they must not be called by a thread that answers READs. Ownership: the catalog outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/fuse/kernel/inodes.h"
#include "headrace/fuse/kernel/mounted_at.h"
#include "headrace/fuse/kernel/session.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

class KernelPages {
 public:
  // `root`: where files are reached through the mount itself.
  KernelPages(const cache::Catalog& catalog, std::shared_ptr<const Inodes> inodes,
              std::shared_ptr<const MountedAt> root)
      : catalog_(catalog), inodes_(std::move(inodes)), root_(std::move(root)) {}
  KernelPages(const KernelPages&) = delete;
  KernelPages& operator=(const KernelPages&) = delete;
  // `on_forgotten` hears what forget() has told the kernel, before that returns.
  using OnForgotten = std::function<void(std::span<const cache::EntryId>)>;
  void attach(std::shared_ptr<Session> session, OnForgotten on_forgotten) {
    session_ = std::move(session);
    on_forgotten_ = std::move(on_forgotten);
  }

  // As long as it lives, forget() waits before it tells the kernel of the file.
  class Storing {
   public:
    Storing(KernelPages& pages, cache::EntryId entry) : pages_(pages), entry_(entry) {}
    ~Storing() { pages_.end_store(entry_); }
    Storing(const Storing&) = delete;
    Storing& operator=(const Storing&) = delete;

   private:
    KernelPages& pages_;
    const cache::EntryId entry_;
  };
  // Nothing of a file is stored while the kernel is told to forget it: old bytes would come after that and stay, new
  // ones would go. Whoever is to store looks whether the file has changed after this, not before.
  [[nodiscard]] Storing begin_store(cache::EntryId entry);
  // 0 or an errno: ENOENT when the kernel does not know the file, and cannot be made to.
  [[nodiscard]] int store(cache::EntryId entry, std::uint64_t inode, std::uint64_t offset,
                          std::span<const std::byte> bytes);
  // A look at the file through the mount makes the kernel create the inode, or ask for attributes that went with an
  // eviction: once, here, rather than when the reader opens it. It is no open, so the follower does not see it.
  void make_known(cache::EntryId entry) const;
  // The kernel drops these pages; a length of 0: all from the offset on. What it has dropped by itself is no error.
  void drop(std::uint64_t inode, std::uint64_t offset, std::uint64_t length);
  // The files have changed: the kernel drops what it has of them, and looks their names up again.
  void forget(const std::vector<cache::EntryId>& entries);

  [[nodiscard]] std::filesystem::path path_of(cache::EntryId entry) const {
    return root_->path() / catalog_.path(entry);
  }

 private:
  void end_store(cache::EntryId entry);

  const cache::Catalog& catalog_;
  const std::shared_ptr<const Inodes> inodes_;
  const std::shared_ptr<const MountedAt> root_;
  std::shared_ptr<Session> session_;  // set by attach(), as the next one
  OnForgotten on_forgotten_;

  io::Mutex mutex_;
  io::CondVar ended_;                                                   // a store, or forget()
  std::vector<cache::EntryId> storing_ HEADRACE_GUARDED_BY(mutex_);     // one for each Storing
  std::vector<cache::EntryId> forgetting_ HEADRACE_GUARDED_BY(mutex_);  // what forget() is at
};

}  // namespace headrace::fuse
