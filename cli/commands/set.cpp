// SPDX-License-Identifier: Apache-2.0
// headrace set: changes a mount while it is read.
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/setup/peer_list.h"
#include "headrace/cli/setup/size.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using nlohmann::json;

struct SetArguments {
  std::filesystem::path mount_point;
  std::vector<std::string> settings;  // NAME=VALUE
};

// What is asked of the daemon, in one request: it does all of it or nothing.
io::Result<json> parse_settings(const std::vector<std::string>& settings) {
  json request = json::object();
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    const std::string name = setting.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : setting.substr(equals + 1);
    const bool is_known = name == "ram" || name == "source-rate" || name == "order" || name == "peers";
    if (value.empty() || !is_known) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("'{}': write ram=SIZE, source-rate=SIZE, order=SPEC or peers=LIST; all else needs a new mount",
                      setting));
    }
    if (name == "order") {
      request["specs"].push_back(absolute_order_spec(value));
      continue;
    }
    if (name == "peers") {
      if (request.contains(name)) return make_error(ErrorCode::kInvalidArgument, "peers= is given twice");
      request[name] = absolute_peers(split_at(',', value));
      continue;
    }
    const char* const member = name == "ram" ? "ram_bytes" : "source_rate";
    if (request.contains(member)) return make_error(ErrorCode::kInvalidArgument, name + "= is given twice");
    HEADRACE_TRY(bytes, name == "ram" ? parse_ram("ram=", value) : parse_rate("source-rate=", value));
    request[member] = bytes;
  }
  return request;
}

io::Status run_set(const SetArguments& arguments) {
  HEADRACE_TRY(request, parse_settings(arguments.settings));
  // A name server may take its time.
  constexpr std::chrono::seconds kPatience{60};
  return call_daemon(arguments.mount_point, "set", request, kPatience).map([](const json&) {});
}

}  // namespace

void add_set_command(Command& program) {
  std::shared_ptr<SetArguments> arguments;
  Command& command =
      add_command(program, {kMountCommands, "set", "Change a mount while it is read"}, run_set, arguments);
  add_mount_point(command, arguments->mount_point);
  command.add(
      {.name = "NAME=VALUE",
       .target = &arguments->settings,
       .help =
           "ram=SIZE, source-rate=SIZE and peers=LIST, as these options of mount; order=SPEC, as headrace order set",
       .required = true});
  command.footer =
      "What no longer fits goes at once; what fits now is read ahead. What is on its\n"
      "way keeps the share of memory that it was mounted with. source-rate=0 ends the\n"
      "limit. A node that is new among the peers takes its part from each, and one that\n"
      "is no longer named gives up its own. Where one of them cannot be, none is done.\n\n"
      "Examples:\n"
      "  headrace set /mnt/train ram=8G\n"
      "  headrace set /mnt/train source-rate=200M\n"
      "  headrace set /mnt/train ram=40% order=torch-distributed:seed=1\n"
      "  headrace set /mnt/train peers=n1,n2,n3,n4";
}

}  // namespace headrace::cli
