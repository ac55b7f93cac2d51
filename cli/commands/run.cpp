// SPDX-License-Identifier: Apache-2.0
// headrace run: shows a data set to one command through a mount of its own, and ends with that command.
//
// The mount lies in a mount namespace that only the command and what it starts are in, so that it can cover the
// source's own path and nothing outlives it: when the command has ended it is unmounted; when this program is killed
// first, its daemon unmounts it, and the command goes on with the source itself.
#include <algorithm>
#include <cerrno>
#include <chrono>
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
#include "headrace/cli/commands/mount_plan.h"
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

// True where this user shows the data set there already. A dead mount does not count: mounting anew clears it.
bool is_shown_already(const fs::path& source, const fs::path& mount_point) {
  constexpr std::chrono::seconds kPatience{10};  // for a process that is about to take the place of another one
  const std::string name = mounted_name(cache::is_object_url(source.native()) ? source : canonical_path(source));
  return std::ranges::any_of(fuse::seen_mounts(), [&](const fuse::SeenMount& mount) {
    return mount.is_at(mount_point) && mount.source_name == name && fuse::has_living_mount(mount_point, kPatience);
  });
}

// Finds what would keep the data set from being shown, as far as that can be seen before anything is changed.
Status check_first(const MountArguments& mount) {
  HEADRACE_TRY_DO(check_mount(mount));
  if (::access("/dev/fuse", R_OK | W_OK) != 0) {
    return io::system_error(errno, "/dev/fuse, which this user must be able to open (as root: chmod 0666 /dev/fuse)");
  }
  return see_private_mounts();
}

// Mounts in a namespace of this process's own. The working folder may lie below the mount, which covers it.
io::Result<PrivateMounts> show_privately(const MountArguments& arguments) {
  MountArguments mount = arguments;
  HEADRACE_TRY_DO(use_own_runtime_folder());
  HEADRACE_TRY(way, enter_private_mounts());
  const io::UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!self.valid()) return io::system_error(errno, "pidfd_open, by which the mount sees the end of this program");
  mount.owner = self.get();
  mount.allow_other = way == PrivateMounts::kOfRoot;  // the command may start programs as other users
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
  print_line(stderr, fmt::format("headrace: {} samples were opened, {:.0f}% of them in memory; readers waited {}{}",
                                 format_count(opens), in_memory, format_duration(real_of(mount, "read_wait_seconds")),
                                 order.empty() ? "" : "; the order was " + order));
}

// A tier takes its time to write what is left. Files that processes of the command hold open keep a daemon longer.
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

// Its exit status is that of this program, whatever else goes wrong.
Status run_to_its_end(const RunArguments& arguments, const fs::path& program) {
  HEADRACE_TRY(status, run_foreground_command(program, arguments.command));
  note_failed_child(status);
  return {};
}

// A signal, or an option that makes no sense, is no reason to run it all the same.
bool may_run_bare(const RunArguments& arguments, const io::Error& error) {
  return arguments.or_bare && error.code != ErrorCode::kCancelled && error.code != ErrorCode::kInvalidArgument;
}

Status run_through_mount(const RunArguments& arguments, const fs::path& program) {
  HEADRACE_TRY(named, mount_point_of(arguments));
  MountArguments mount = arguments.mount;
  mount.mount_point = canonical_path(named);
  if (is_shown_already(mount.source, mount.mount_point)) {
    print_line(stderr, fmt::format("headrace: {} is mounted already; the command reads through that",
                                   mount.mount_point.string()));
    return run_to_its_end(arguments, program);
  }
  if (Status first = check_first(mount); !first) {
    if (!may_run_bare(arguments, first.error())) return first;
    print_line(stderr, "headrace: the command runs without headrace: " + first.error().message());
    return run_to_its_end(arguments, program);
  }
  const io::Result<PrivateMounts> way = show_privately(mount);
  if (!way) {
    remove_own_runtime_folder();
    return tl::unexpected(way.error());
  }
  print_line(stderr, fmt::format("headrace: {} shows {} to this command alone, by {}", mount.mount_point.string(),
                                 mount.source.string(), describe(*way)));
  Status ran = run_to_its_end(arguments, program);
  tell_what_was_read(mount.mount_point);
  if (const Status ended = end_mount(mount.mount_point); !ended) {
    print_line(stderr, "headrace: " + ended.error().message());
  }
  return ran;
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
    std::erase_if(arguments->mount.words, [](const std::string& word) {  // a mount has no such options
      return word.starts_with("--at=") || word.starts_with("--or-bare=");
    });
    return {};
  };
  command.footer =
      "The data set is shown at its own path, to the command and to what it starts. All\n"
      "ends with the command, whose exit status is that of headrace (126: it cannot be\n"
      "executed, 127: there is none). Without root, a user namespace is needed.\n\n"
      "Examples:\n"
      "  headrace run --ram 16G /data/imagenet -- torchrun train.py /data/imagenet\n"
      "  headrace run s3://bucket/train --at /mnt/train -- python train.py /mnt/train";
}

}  // namespace headrace::cli
