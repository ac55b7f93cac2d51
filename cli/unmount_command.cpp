// SPDX-License-Identifier: Apache-2.0
// headrace unmount: ends a mount, whether its daemon lives or not, and waits until the daemon is gone.
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "headrace/cli/commands.h"
#include "headrace/cli/control.h"
#include "headrace/cli/places.h"
#include "headrace/fuse/channel.h"

namespace headrace::cli {

io::Status run_unmount(const UnmountArguments& arguments) {
  const std::filesystem::path mount_point = canonical_path(arguments.mount_point);
  if (io::Status unmounted = fuse::unmount(mount_point); !unmounted) return unmounted;

  // The daemon notices at once and flushes its tiers; its socket goes last.
  constexpr std::chrono::milliseconds kStep{10};
  constexpr std::chrono::seconds kPatience{10};
  io::Result<std::filesystem::path> socket = control_socket_of(mount_point);
  if (!socket) return io::forward_error(std::move(socket));
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (ControlClient::connect(*socket)) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return io::make_error(io::ErrorCode::kTimedOut,
                            fmt::format("{} is unmounted, but its daemon has not ended yet", mount_point.string()));
    }
    std::this_thread::sleep_for(kStep);
  }
  return {};
}

}  // namespace headrace::cli
