// SPDX-License-Identifier: Apache-2.0
// Sees every open of a file of the mount by inotify on its directories; the kernel does not tell the mount itself.
//
//   auto follower = Follower::open(catalog, {.on_opens = ..., .on_overflow = ...});
//   (*follower)->watch(directory, "/mnt/imagenet/n01440764");
//
// Opening directories is ignored. Watching costs no open: it does not keep the mount busy.
//
// Thread-safety: watch() from one thread at a time, while the follower runs. Ownership: the catalog outlives it; the
// callbacks run on its thread until it dies.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/io/mutex.h"
#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"
#include "headrace/io/wake_event.h"

namespace headrace::fuse {

struct FollowerCallbacks {
  std::function<void(std::span<const cache::SampleIndex>)> on_opens;  // in the order of the opens
  std::function<void()> on_overflow;                                  // opens went unseen
};

class Follower {
 public:
  // Errors: kSystem (EMFILE: the user's limit of inotify instances).
  [[nodiscard]] static io::Result<std::unique_ptr<Follower>> open(const cache::Catalog& catalog,
                                                                  FollowerCallbacks callbacks);
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // Errors: kNoSpace (fs.inotify.max_user_watches is used up), kNotFound, kPermission.
  [[nodiscard]] io::Status watch(cache::EntryId directory, const std::filesystem::path& path);

  // What watch() uses, for a thread that keeps descriptors of its own.
  [[nodiscard]] int watch_fd() const { return inotify_fd_.get(); }

 private:
  Follower(const cache::Catalog& catalog, FollowerCallbacks callbacks);
  void run();
  void read_events(std::span<char> buffer);
  void take(std::span<const char> events);

  const cache::Catalog& catalog_;
  const FollowerCallbacks callbacks_;
  io::UniqueFd inotify_fd_;
  io::WakeEvent stop_;
  std::vector<cache::SampleIndex> opened_;  // the thread's
  std::thread thread_;

  io::Mutex mutex_;
  std::vector<cache::EntryId> directories_ HEADRACE_GUARDED_BY(mutex_);  // by watch descriptor, which count up from 1
};

}  // namespace headrace::fuse
