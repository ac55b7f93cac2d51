// SPDX-License-Identifier: Apache-2.0
// headrace run: shows a data set to one command through a mount of its own, and ends with that command.
//
// The mount lies in a mount namespace that only the command and what it starts are in, so that it can cover the
// source's own path and nothing outlives it: when the command has ended it is unmounted; when this program is killed
// first, its daemon unmounts it, and the command goes on with the source itself.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "headrace/cache/object_store.h"
#include "headrace/cli/commands/commands.h"
#include "headrace/cli/commands/mount.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/options/config_file.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/child_command.h"
#include "headrace/cli/setup/foreground_command.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/setup/private_mounts.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/terminal.h"
#include "headrace/fuse/channel.h"
#include "headrace/fuse/mounts.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;
using io::Status;

struct RunArguments {
  MountArguments mount;  // its mount point is set by run_command()
  fs::path at;           // empty: the source's own path
  std::vector<std::string> command;
  bool or_bare = false;
};

io::Result<fs::path> mount_point_of(const RunArguments& arguments) {
  if (!arguments.at.empty()) return arguments.at;
  if (!cache::is_object_url(arguments.mount.source.native())) return arguments.mount.source;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{} has no path of its own; give it one with --at PATH, an empty folder",
                                arguments.mount.source.string()));
}

bool is_headrace_mount(const fs::path& path) {
  return std::ranges::any_of(fuse::seen_mounts(), [path = canonical_path(path)](const fuse::SeenMount& mount) {
    return mount.path == path || std::ranges::find(mount.also_at, path) != mount.also_at.end();
  });
}

// Mounts in a namespace of this process's own. The working folder may lie below the mount, which covers it.
io::Result<PrivateMounts> show_privately(const RunArguments& arguments, const fs::path& mount_point) {
  HEADRACE_TRY(way, enter_private_mounts());
  const io::UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!self.valid()) return io::system_error(errno, "pidfd_open, by which the mount sees the end of this program");
  MountArguments mount = arguments.mount;
  mount.mount_point = mount_point;
  mount.owner = self.get();
  std::error_code ignored;
  const fs::path working_folder = fs::current_path(ignored);
  HEADRACE_TRY_DO(run_mount(mount));
  if (!working_folder.empty()) fs::current_path(working_folder, ignored);
  return way;
}

// Left out where the daemon has died or nothing was read.
void tell_what_was_read(const fs::path& mount_point) {
  const io::Result<nlohmann::json> stat = query_daemon(mount_point, "stat");
  if (!stat) return;
  const nlohmann::json& mount = member_of(*stat, "mount");
  const std::uint64_t opens = number_of(mount, "opens");
  if (opens == 0) return;
  const double in_memory = 100.0 * static_cast<double>(number_of(mount, "hits")) / static_cast<double>(opens);
  const std::string order = text_of(mount, "order");
  print_line(stderr, fmt::format("headrace: {} samples were opened, {:.0f}% of them in memory; readers waited {}; {}",
                                 format_count(opens), in_memory, format_duration(real_of(mount, "read_wait_seconds")),
                                 order.empty() ? "no order was found" : "the order was " + order));
}

// What tiers have not written yet takes its time; files that processes of the command hold open keep a daemon longer.
constexpr int kPatienceMs = 10'000;

Status end_mount(const fs::path& mount_point) {
  const std::optional<DaemonProcesses> daemon = find_daemon(mount_point);
  io::UniqueFd ended;
  if (daemon) ended = io::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, daemon->supervisor, 0)));
  if (::chdir("/") != 0) return io::system_error(errno, "chdir /");  // this program may work in the mount itself
  HEADRACE_TRY_DO(fuse::unmount(mount_point));
  pollfd waited{ended.get(), POLLIN, 0};
  if (!ended.valid() || ::poll(&waited, 1, kPatienceMs) > 0) return {};
  print_line(stderr, fmt::format("headrace: the daemon (pid {}) ends when what the command has left behind closes its "
                                 "files",
                                 daemon->supervisor));
  return {};
}

Status run_through_mount(const RunArguments& arguments, const fs::path& program) {
  HEADRACE_TRY(named, mount_point_of(arguments));
  const fs::path mount_point = canonical_path(named);
  if (is_headrace_mount(mount_point)) {
    print_line(stderr,
               fmt::format("headrace: {} is mounted already; the command reads through that", mount_point.string()));
    HEADRACE_TRY(status, run_foreground_command(program, arguments.command));
    note_failed_child(status);
    return {};
  }
  const io::Result<PrivateMounts> shown = show_privately(arguments, mount_point);
  if (!shown && !arguments.or_bare) return tl::unexpected(shown.error());
  print_line(stderr, shown ? fmt::format("headrace: {} shows {} to this command alone, by {}", mount_point.string(),
                                         arguments.mount.source.string(), describe(*shown))
                           : fmt::format("headrace: the command runs without headrace: {}", shown.error().message()));
  const io::Result<int> status = run_foreground_command(program, arguments.command);
  if (shown) {
    tell_what_was_read(mount_point);
    HEADRACE_TRY_DO(end_mount(mount_point));
  }
  if (!status) return tl::unexpected(status.error());
  note_failed_child(*status);
  return {};
}

Status run_command(const RunArguments& arguments) {
  const io::Result<fs::path> program = find_program(arguments.command.front());
  if (program) return run_through_mount(arguments, *program);
  note_failed_child(program.error().code == ErrorCode::kNotFound ? kExitNotFound : kExitNotExecutable);
  return tl::unexpected(program.error());
}

}  // namespace

void add_run_command(Command& program) {
  std::shared_ptr<RunArguments> arguments;
  Command& command =
      add_command(program, {kMountCommands, "run", "Run a command that reads a data set, and read ahead of it"},
                  run_command, arguments);
  command.add({.name = "SOURCE",
               .target = &arguments->mount.source,
               .help = "The folder or bucket that holds the data set",
               .required = true});
  command.add({.name = "COMMAND",
               .target = &arguments->command,
               .help = "After --: the command with its arguments",
               .required = true});
  command.add({.name = "--at",
               .target = &arguments->at,
               .value = "PATH",
               .help = "Show the data set in this empty folder instead of at SOURCE"});
  command.add({.name = "--or-bare",
               .target = &arguments->or_bare,
               .help = "Run the command without headrace where nothing can be mounted"});
  add_served_options(command, arguments->mount);
  add_engine_option(command, arguments->mount.cache);
  add_environment_names(command);
  command.settle = [&command, arguments]() -> Status {
    arguments->mount.words = words_of(command);
    return {};
  };
  command.footer =
      "The data set is shown at its own path, to the command and to what it starts. All\n"
      "ends with the command, whose exit status is that of headrace: 126 where it cannot\n"
      "be executed, 127 where there is none. Without root, a user namespace is needed.\n\n"
      "Examples:\n"
      "  headrace run --ram 16G /data/imagenet -- torchrun train.py /data/imagenet\n"
      "  headrace run s3://bucket/train --at /mnt/train -- python train.py /mnt/train";
}

}  // namespace headrace::cli
