// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/unmount.h"

#include <chrono>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/show/json.h"
#include "headrace/fuse/channel.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

// A descriptor that becomes readable when the daemon has ended, that is when its supervisor has: that goes last. Empty
// when no daemon runs.
io::UniqueFd find_daemon(const std::filesystem::path& mount_point) {
  const io::Result<json> version = call_daemon(mount_point, "version", json::object());
  if (!version) return {};
  const auto pid = static_cast<pid_t>(number_of(*version, "supervisor_pid"));
  return io::UniqueFd(pid > 1 ? static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)) : -1);
}

}  // namespace

io::Status run_unmount(const UnmountArguments& arguments) {
  constexpr int kPatienceMs = 30'000;  // time for a slow disk to take what its tier has not written yet
  const std::filesystem::path mount_point = canonical_path(arguments.mount_point);
  const io::UniqueFd daemon = find_daemon(mount_point);
  HEADRACE_TRY_DO(fuse::unmount(mount_point));
  if (!daemon.valid()) return {};
  pollfd ended{daemon.get(), POLLIN, 0};
  if (::poll(&ended, 1, kPatienceMs) > 0) return {};
  return io::make_error(
      io::ErrorCode::kTimedOut,
      fmt::format("{} is unmounted, but its daemon still runs: a process has something in it open (the "
                  "folder of a shell counts), or the tiers are being written",
                  mount_point.string()));
}

}  // namespace headrace::cli
