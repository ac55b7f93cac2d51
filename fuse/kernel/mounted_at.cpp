// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/kernel/mounted_at.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>

#include "headrace/fuse/kernel/mount_table.h"

namespace headrace::fuse {

MountedAt::MountedAt(std::filesystem::path first, std::string device)
    : first_(std::move(first)),
      device_(std::move(device)),
      table_(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)),
      path_(look()) {}

// Below an overlay the mount is at no place that can be reached, and the overlay is at the first one.
std::filesystem::path MountedAt::look() const {
  const std::vector<std::filesystem::path> places = places_of(device_);
  const bool has_first = places.empty() || std::ranges::find(places, first_) != places.end();
  return has_first ? first_ : places.front();
}

std::filesystem::path MountedAt::path() const {
  pollfd change = {.fd = table_.get(), .events = POLLPRI, .revents = 0};
  io::MutexLock lock(mutex_);
  if (::poll(&change, 1, 0) > 0) path_ = look();
  return path_;
}

}  // namespace headrace::fuse
