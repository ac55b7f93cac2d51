// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/place_links.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <sys/types.h>
#include <unistd.h>

#include "headrace/cli/daemon/control.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/setup/places.h"
#include "headrace/fuse/mounts.h"
#include "headrace/io/own_folders.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;
using io::system_error;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A daemon whose mount has just gone ends within a second.
constexpr milliseconds kLeavePatience{5'000};
constexpr milliseconds kAfterHangUp{20};  // one with too many connections hangs up as well, and is asked no faster

std::vector<fs::path> all_places() {
  std::vector<fs::path> places;
  for (const fuse::SeenMount& mount : fuse::seen_mounts()) {
    places.push_back(mount.path);
    places.insert(places.end(), mount.also_at.begin(), mount.also_at.end());
  }
  return places;
}

// The name that a link leads to; that of the socket itself where it is no link, as programs before this one made it.
fs::path target_of(const fs::path& link) {
  std::error_code failure;
  const fs::path target = fs::read_symlink(link, failure);
  return failure ? link.filename() : target;
}

// At once, so that nobody finds the place without a daemon.
io::Status put_link(const fs::path& link, const fs::path& target) {
  const fs::path made = fmt::format("{}.{}", link.string(), ::getpid());
  if (::symlink(target.c_str(), made.c_str()) != 0) return system_error(errno, "control socket " + made.string());
  if (::rename(made.c_str(), link.c_str()) == 0) return {};
  const int failure = errno;
  ::unlink(made.c_str());
  return system_error(failure, "control socket " + link.string());
}

bool is_shown_elsewhere(pid_t worker, const fs::path& place) {
  return std::ranges::any_of(all_places(), [&](const fs::path& other) {
    if (other == place) return false;
    const std::optional<DaemonProcesses> there = find_daemon(other);
    return there && there->worker == worker;
  });
}

// Waits until the daemon that was mounted at the place before has ended, unless it goes on elsewhere.
io::Status wait_until_left(const fs::path& place, const fs::path& link) {
  const auto deadline = steady_clock::now() + kLeavePatience;
  while (auto other = ControlClient::connect(link)) {
    if (is_shown_elsewhere(other->peer(), place)) return {};
    if (!other->wait_for_hang_up(deadline)) {
      return make_error(ErrorCode::kBusy, "control socket " + link.string() + ": another daemon answers");
    }
    std::this_thread::sleep_for(kAfterHangUp);
  }
  return {};
}

}  // namespace

io::Result<fs::path> daemon_socket_of(const fs::path& mount_point, const std::string& device) {
  return io::runtime_directory().map([&](const fs::path& directory) {
    return directory / file_name_for(mount_point.filename().native(), device, ".daemon");
  });
}

io::Result<PlaceLinks> PlaceLinks::make(const fs::path& socket, const fs::path& mount_point,
                                        const std::string& device) {
  PlaceLinks links(socket);
  for (const fs::path& place : fuse::shown_at(device)) {
    HEADRACE_TRY(link, control_socket_of(place));
    if (target_of(link) == socket.filename()) continue;
    if (place == mount_point) HEADRACE_TRY_DO(wait_until_left(place, link));
    HEADRACE_TRY_DO(put_link(link, socket.filename()));
  }
  return links;
}

PlaceLinks::PlaceLinks(PlaceLinks&& other) noexcept : socket_(std::exchange(other.socket_, {})) {}

PlaceLinks::~PlaceLinks() {
  if (socket_.empty()) return;
  std::error_code failure;
  std::vector<fs::path> own;
  for (const fs::directory_entry& entry : fs::directory_iterator(socket_.parent_path(), failure)) {
    if (entry.is_symlink(failure) && target_of(entry.path()) == socket_.filename()) own.push_back(entry.path());
  }
  for (const fs::path& link : own) fs::remove(link, failure);
}

io::Status link_place(const fs::path& place, const fs::path& shown) {
  HEADRACE_TRY(link, control_socket_of(place));
  HEADRACE_TRY(other, control_socket_of(shown));
  if (target_of(link) == target_of(other)) return {};
  return put_link(link, target_of(other));
}

void unlink_place(const fs::path& place) {
  const io::Result<fs::path> link = control_socket_of(place);
  std::error_code failure;
  if (link && fs::is_symlink(*link, failure)) fs::remove(*link, failure);
}

}  // namespace headrace::cli
