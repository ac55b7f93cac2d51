// SPDX-License-Identifier: Apache-2.0
// headrace upgrade: has this program go on with a mount that an older one serves, while it is read.
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/commands/mount.h"
#include "headrace/cli/daemon/handover.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/version.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;
using nlohmann::json;

struct UpgradeArguments {
  std::vector<fs::path> mount_points;
};

constexpr std::chrono::milliseconds kPollInterval{50};
// A catalog of ten million files is read within seconds. Readers are answered meanwhile.
constexpr std::chrono::seconds kPatience{120};

// Waits until another worker than `before` answers, and tells whether it is of this program.
io::Status await_successor(const fs::path& mount_point, std::uint64_t before, const fs::path& program) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kPollInterval);
    const io::Result<json> version = call_daemon(mount_point, "version", json::object());
    if (!version || number_of(*version, "pid") == before) continue;
    if (text_of(*version, "program") == program) return {};
    return make_error(ErrorCode::kSystem, fmt::format("{} goes on with {}; its log says why", mount_point.string(),
                                                      text_of(*version, "program")));
  }
  return make_error(ErrorCode::kTimedOut, fmt::format("{} was handed over, but does not answer after {} s; its log "
                                                      "says why, readers are answered meanwhile",
                                                      mount_point.string(), kPatience.count()));
}

io::Status upgrade(const fs::path& mount_point, const fs::path& program) {
  HEADRACE_TRY(version, call_daemon(mount_point, "version", json::object()));
  if (version.find("program") == version.end()) {
    return make_error(ErrorCode::kUnsupported,
                      fmt::format("headrace {} serves {}, and cannot hand it over; unmount, and mount anew",
                                  text_of(version, "version"), mount_point.string()));
  }
  HEADRACE_TRY(text, call_daemon(mount_point, "handover", json::object()));
  HEADRACE_TRY(handover, parse_handover(text));
  HEADRACE_TRY_DO(check_handover(handover));
  io::Result<json> told = call_daemon(mount_point, "upgrade", {{"program", program.string()}});
  const bool has_begun = told || told.error().code == ErrorCode::kNotFound;  // it may end before it has answered
  if (!has_begun) return io::forward_error(std::move(told));
  HEADRACE_TRY_DO(await_successor(mount_point, number_of(version, "pid"), program));
  fmt::print("{}: headrace {} goes on ({} before)\n", mount_point.string(), kVersion, text_of(version, "version"));
  return {};
}

io::Status run_upgrade(const UpgradeArguments& arguments) {
  std::error_code failure;
  const fs::path program = fs::read_symlink("/proc/self/exe", failure);
  if (failure) return io::system_error(failure.value(), "/proc/self/exe");
  std::vector<fs::path> mount_points;  // before the check of one of them changes the folder
  for (const fs::path& given : arguments.mount_points) mount_points.push_back(canonical_path(given));
  for (const fs::path& each : mount_points) HEADRACE_TRY_DO(upgrade(each, program));
  return {};
}

}  // namespace

void add_upgrade_command(Command& program) {
  std::shared_ptr<UpgradeArguments> arguments;
  Command& command =
      add_command(program, {kMountCommands, "upgrade", "Have this program go on with mounts that an older one serves"},
                  run_upgrade, arguments);
  command.add({.name = "MOUNTPOINT",
               .target = &arguments->mount_points,
               .help = "Where it is mounted; several may be given",
               .required = true});
  command.footer =
      "For use after headrace itself was updated: both processes of the mount become\n"
      "this program. Readers go on, and wait as long as when a worker is replaced. What\n"
      "was pushed stays; options are those of the mount, an order that was set since is\n"
      "looked for again.\n\n"
      "Example:\n"
      "  headrace upgrade /mnt/train";
}

}  // namespace headrace::cli
