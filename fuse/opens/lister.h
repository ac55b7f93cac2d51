// SPDX-License-Identifier: Apache-2.0
// Walks the directories of the mount once, from outside. It sets a watch on each and lists it. Listing makes the kernel
// create the inodes that files can be pushed to, some 200 with each request.
//
//   Lister lister(catalog, "/mnt/x", "0:35", follower.get(), [](const io::Error& reason) { ... });   // begins at once
//
// Thread-safety: done() from any thread, the rest from the owner's. Ownership: catalog and follower outlive it.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "headrace/fuse/opens/follower.h"

namespace headrace::fuse {

class Lister {
 public:
  // `follower` null: no watches. `on_unwatched` hears once, with the reason, when a directory cannot be watched.
  // `first`, `device`: of the mount, as MountedAt takes them.
  Lister(const cache::Catalog& catalog, std::filesystem::path first, std::string device, Follower* follower,
         std::function<void(const io::Error&)> on_unwatched);
  ~Lister();  // stop()
  Lister(const Lister&) = delete;
  Lister& operator=(const Lister&) = delete;

  void stop();  // ends the walk; idempotent
  [[nodiscard]] bool done() const { return done_.load(); }

 private:
  void let_go_of_descriptors() const;
  void run();
  void watch(cache::EntryId directory, const std::filesystem::path& path);
  void list(const std::filesystem::path& path) const;

  const cache::Catalog& catalog_;
  const std::filesystem::path first_;
  const std::string device_;
  Follower* follower_;  // null once a watch has failed
  const std::function<void(const io::Error&)> on_unwatched_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace headrace::fuse
