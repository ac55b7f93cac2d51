// SPDX-License-Identifier: Apache-2.0
// headrace pin and headrace evict: single samples of a mount, while it is read.
#include <filesystem>
#include <string>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/spooled_list.h"
#include "headrace/cli/show/json.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

struct PinArguments {
  std::filesystem::path mount_point;
  std::string list;  // empty: print what is pinned
};

struct EvictArguments {
  std::filesystem::path mount_point;
  std::string list;
};

io::Result<json> call_with_list(const std::filesystem::path& mount_point, const char* command,
                                const std::string& list) {
  SpooledList spooled;
  HEADRACE_TRY(path, spooled.path_of(list));
  io::Result<json> done = call_daemon(mount_point, command, {{"list", path.string()}});
  if (!done) spooled.rename_in(done.error().context);
  return done;
}

io::Status print_pinned(const std::filesystem::path& mount_point) {
  std::uint64_t first = 0;
  while (true) {
    HEADRACE_TRY(reply, call_daemon(mount_point, "pinned", {{"first", first}}));
    for (const json& path : reply["paths"]) fmt::print("{}\n", path.get<std::string>());
    const std::uint64_t next = number_of(reply, "next");
    if (next <= first) return {};
    first = next;
  }
}

io::Status run_pin(const PinArguments& arguments) {
  if (arguments.list.empty()) return print_pinned(arguments.mount_point);
  return call_with_list(arguments.mount_point, "pin", arguments.list).map([](const json&) {});
}

io::Status run_evict(const EvictArguments& arguments) {
  return call_with_list(arguments.mount_point, "evict", arguments.list).map([](const json&) {});
}

constexpr const char* kListHelp = "A file with the path or index of a sample per line; -: standard input";

}  // namespace

void add_pin_command(Command& program) {
  std::shared_ptr<PinArguments> arguments;
  Command& command = add_command(
      program, {kMountCommands, "pin", "Hold some samples of a mount in memory, whatever is read"}, run_pin, arguments);
  add_mount_point(command, arguments->mount_point);
  command.add({.name = "LIST",
               .target = &arguments->list,
               .help = std::string(kListHelp) + "; without it, print what is pinned"});
  command.footer =
      "What is pinned is fetched first and stays until headrace evict or the end of the\n"
      "mount; a worker that dies and an upgrade change nothing of it. Half of the\n"
      "mount's memory for samples may be pinned, or all of them where it holds all.\n"
      "Where less memory may be used for a while, pins may wait: headrace stat says so.\n"
      "With a name that is no sample, or without room, none of the list is pinned.\n\n"
      "Examples:\n"
      "  grep ^val/ samples.txt | headrace pin /mnt/train -\n"
      "  headrace pin /mnt/train | headrace evict /mnt/train -     # none any more";
}

void add_evict_command(Command& program) {
  std::shared_ptr<EvictArguments> arguments;
  Command& command = add_command(program, {kMountCommands, "evict", "Give up what a mount holds of some samples"},
                                 run_evict, arguments);
  add_mount_point(command, arguments->mount_point);
  command.add({.name = "LIST", .target = &arguments->list, .help = kListHelp, .required = true});
  command.footer =
      "Memory, page cache and disk tiers give them up, and they are pinned no more.\n"
      "What is read next of them comes from the source again.\n\n"
      "Examples:\n"
      "  headrace evict /mnt/train suspects.txt\n"
      "  echo cat/3.jpg | headrace evict /mnt/train -";
}

}  // namespace headrace::cli
