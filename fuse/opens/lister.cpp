// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/opens/lister.h"

#include <array>
#include <memory>
#include <span>
#include <utility>

#include <dirent.h>
#include <pthread.h>
#include <sys/sysinfo.h>

#include "headrace/fuse/kernel/mounted_at.h"
#include "headrace/fuse/survive/own_descriptors.h"
#include "headrace/io/log.h"

namespace headrace::fuse {
using cache::EntryId;

namespace {

// An inode and a name of FUSE take about 1.1 KiB of kernel memory. A quarter of the RAM for them is enough; files
// beyond that become known one by one when they are pushed.
std::uint64_t entries_worth_listing() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return 1'000'000;
  return std::uint64_t{info.totalram} * info.mem_unit / 4 / 1100;
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

}  // namespace

Lister::Lister(const cache::Catalog& catalog, std::filesystem::path first, std::string device, Follower* follower,
               std::function<void(const io::Error&)> on_unwatched)
    : catalog_(catalog),
      first_(std::move(first)),
      device_(std::move(device)),
      follower_(follower),
      on_unwatched_(std::move(on_unwatched)) {
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "hr-list");
    let_go_of_descriptors();
    run();
  });
}

Lister::~Lister() {
  stop();
}

void Lister::stop() {
  stop_.store(true);
  if (thread_.joinable()) thread_.join();
}

// Killed while it waits for an answer of the mount, this thread would keep /dev/fuse open: the mount would neither
// answer nor be dead.
void Lister::let_go_of_descriptors() const {
  std::array<int, 1> watches = {};
  if (follower_ != nullptr) watches = {follower_->watch_fd()};
  const io::Status alone = keep_only(std::span<const int>(watches).first(follower_ != nullptr ? 1 : 0));
  if (!alone) io::log_warning("a mount that is killed while it is listed may hang: {}", alone.error().message());
}

void Lister::run() {
  const MountedAt root(first_, device_);  // made here: this thread has let go of the descriptors of all others
  std::uint64_t room = entries_worth_listing();
  for (EntryId entry = 0; entry < catalog_.entry_count() && !stop_.load(); ++entry) {
    if (!catalog_.is_directory(entry)) continue;
    const std::filesystem::path path = entry == cache::kRootEntry ? root.path() : root.path() / catalog_.path(entry);
    watch(entry, path);
    const std::uint64_t children = catalog_.children(entry).count;
    if (children > room) continue;
    room -= children;
    list(path);
  }
  done_.store(true);
}

void Lister::watch(EntryId directory, const std::filesystem::path& path) {
  if (follower_ == nullptr) return;
  const io::Status watched = follower_->watch(directory, path);
  if (watched) return;
  follower_ = nullptr;
  on_unwatched_(watched.error());
}

void Lister::list(const std::filesystem::path& path) const {
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(path.c_str()));
  if (!directory) return;
  while (!stop_.load() && ::readdir(directory.get()) != nullptr) continue;  // NOLINT: a DIR of our own
}

}  // namespace headrace::fuse
