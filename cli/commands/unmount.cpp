// SPDX-License-Identifier: Apache-2.0
// headrace unmount: ends a mount, whether its daemon lives or not, and waits until the daemon is gone.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/daemon/place_links.h"
#include "headrace/cli/daemon/processes.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/terminal.h"
#include "headrace/fuse/channel.h"
#include "headrace/fuse/mounts.h"
#include "headrace/io/process_state.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;
using nlohmann::json;

struct UnmountArguments {
  std::filesystem::path mount_point;
  bool force = false;  // also while it is being read; ends a daemon that others hold
};

// A loader that runs opens samples more often than this; one that has ended or failed does not.
constexpr double kSecondsOfReading = 10;
// A daemon that nobody holds ends sooner. A wait that a person notices is explained.
constexpr int kSilentMs = 1000;
constexpr int kPatienceMs = 30'000;  // time for a slow disk to take what its tier has not written yet
constexpr int kForcedMs = 15'000;    // a supervisor kills a worker that has not ended 10 s after it was told to

// The daemon of a mount, if one runs. It has ended when its supervisor has: that goes last.
class Daemon {
 public:
  explicit Daemon(const fs::path& mount_point) : processes_(find_daemon(mount_point)) {
    if (runs()) supervisor_ = io::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, processes_->supervisor, 0)));
  }
  [[nodiscard]] bool runs() const { return processes_.has_value(); }
  [[nodiscard]] bool is_part(pid_t pid) const {
    return processes_ && (pid == processes_->worker || pid == processes_->supervisor);
  }
  [[nodiscard]] pid_t pid() const { return runs() ? processes_->supervisor : 0; }
  [[nodiscard]] bool ends_within(int milliseconds) const {
    if (!supervisor_.valid()) return true;
    pollfd ended{supervisor_.get(), POLLIN, 0};
    return ::poll(&ended, 1, milliseconds) > 0;
  }
  void tell_to_stop() const { ::syscall(SYS_pidfd_send_signal, supervisor_.get(), SIGTERM, nullptr, 0); }

 private:
  std::optional<DaemonProcesses> processes_;
  io::UniqueFd supervisor_;
};

io::Status check_not_read(const fs::path& mount_point) {
  const io::Result<json> stat = query_daemon(mount_point, "stat");
  if (!stat) return {};  // nobody answers: whoever unmounts wants to end just that
  const json& mount = member_of(*stat, "mount");
  const double seconds = real_of(mount, "seconds_since_open");
  if (!mount.contains("seconds_since_open") || seconds >= kSecondsOfReading) return {};
  return make_error(ErrorCode::kBusy,
                    fmt::format("{} is being read: a sample was opened {:.1f} s ago; end what reads it, or unmount it "
                                "with --force",
                                mount_point.string(), seconds));
}

// Of a mount that is shown at other places, too, the daemon cannot tell through which of them it is read.
io::Status check_not_used(const fs::path& mount_point, const std::vector<Holder>& users) {
  if (users.empty()) return {};
  return make_error(ErrorCode::kBusy, fmt::format("{} is in use: {}; end what reads it, or unmount it with --force",
                                                  mount_point.string(), describe(users)));
}

bool is_shown_twice(const fs::path& mount_point) {
  return std::ranges::any_of(fuse::seen_mounts(), [&](const fuse::SeenMount& mount) {
    return mount.is_at(mount_point) && !mount.also_at.empty();
  });
}

// Whether the daemon that was mounted here serves other places still. `devices`: what was mounted here just now. Where
// that is nothing, its places are those where it listens: it may be stopped, or too busy to answer.
bool serves_elsewhere(const Daemon& daemon, const std::vector<std::string>& devices) {
  if (!devices.empty()) return fuse::is_shown(devices);
  const auto is_its_place = [&](const fs::path& place) {
    const std::optional<DaemonProcesses> there = find_daemon(place);
    return there && there->supervisor == daemon.pid();
  };
  return std::ranges::any_of(fuse::seen_mounts(), [&](const fuse::SeenMount& mount) {
    return is_its_place(mount.path) || std::ranges::any_of(mount.also_at, is_its_place);
  });
}

// Who keeps a daemon from ending although its mount is unmounted here.
std::string reason_to_wait(const std::vector<Holder>& users, const std::vector<std::string>& devices) {
  std::vector<Holder> holders = namespaces_with(devices);
  std::copy_if(users.begin(), users.end(), std::back_inserter(holders),
               [](const Holder& user) { return io::process_state(user.pid).has_value(); });
  if (!holders.empty()) return describe(holders);
  return "no process that this user may look into holds it; its tiers may still be being written";
}

io::Status wait_for_end(const Daemon& daemon, const fs::path& mount_point, const std::string& reason) {
  print_line(stderr, fmt::format("headrace: {} is unmounted here; waiting up to {} s for its daemon (pid {}): {}",
                                 mount_point.string(), kPatienceMs / 1000, daemon.pid(), reason));
  if (daemon.ends_within(kPatienceMs)) return {};
  return make_error(ErrorCode::kTimedOut,
                    fmt::format("{} is unmounted here, but its daemon (pid {}) still runs: {}; end what holds it, or "
                                "headrace unmount --force {}",
                                mount_point.string(), daemon.pid(), reason, mount_point.string()));
}

io::Status run_unmount(const UnmountArguments& arguments) {
  const fs::path mount_point = canonical_path(arguments.mount_point);
  const std::vector<std::string> devices = fuse::devices_at(mount_point);
  const Daemon daemon(mount_point);
  // Somebody else unmounted it: what is left leads to a daemon that no longer has to do with this place.
  if (devices.empty() && daemon.runs() && serves_elsewhere(daemon, devices)) {
    unlink_place(mount_point);
    return {};
  }
  std::vector<Holder> users = users_of(mount_point);
  std::erase_if(users, [&](const Holder& user) { return daemon.is_part(user.pid); });
  if (daemon.runs() && !arguments.force) {
    HEADRACE_TRY_DO(is_shown_twice(mount_point) ? check_not_used(mount_point, users) : check_not_read(mount_point));
  }
  HEADRACE_TRY_DO(fuse::unmount(mount_point));
  if (!users.empty()) {
    print_line(stderr, fmt::format("headrace: {} was in use: {}", mount_point.string(), describe(users)));
  }
  const bool goes_on = daemon.runs() && serves_elsewhere(daemon, devices);
  // A daemon that only waits for its end is still found here, by who ends it with --force; it removes the link itself.
  if (goes_on || !daemon.runs()) unlink_place(mount_point);
  if (goes_on || daemon.ends_within(kSilentMs)) return {};
  const std::string reason = reason_to_wait(users, devices);
  if (!arguments.force) return wait_for_end(daemon, mount_point, reason);
  daemon.tell_to_stop();
  if (daemon.ends_within(kForcedMs)) return {};
  return make_error(ErrorCode::kTimedOut, fmt::format("{} is unmounted here, but its daemon (pid {}) does not end: {}",
                                                      mount_point.string(), daemon.pid(), reason));
}

}  // namespace

void add_unmount_command(Command& program) {
  std::shared_ptr<UnmountArguments> arguments;
  Command& command = add_command(
      program, {kMountCommands, "unmount", "End a mount, even if its daemon died; no error if there is none"},
      run_unmount, arguments);
  add_mount_point(command, arguments->mount_point);
  command.add({.name = "--force",
               .target = &arguments->force,
               .help = "Also while samples are being read, and while processes or other namespaces hold the mount"});
  command.alias = "umount";
  command.footer = "Example:\n  headrace unmount /mnt/train";
}

}  // namespace headrace::cli
