// SPDX-License-Identifier: Apache-2.0
// headrace set: changes a mount while it is read.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/data_set.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using nlohmann::json;

struct SetArguments {
  std::filesystem::path mount_point;
  std::vector<std::string> settings;  // NAME=VALUE
};

// What is asked of the daemon; all of it is checked before the first of it is sent.
struct Requests {
  json ram;                                  // null: it stays
  json orders = {{"specs", json::array()}};  // none: they stay
};

io::Result<Requests> parse_settings(const std::vector<std::string>& settings) {
  Requests requests;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    const std::string name = setting.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : setting.substr(equals + 1);
    if (equals == std::string::npos || value.empty() || (name != "ram" && name != "order")) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("'{}': write ram=SIZE or order=SPEC; all else needs a new mount", setting));
    }
    if (name == "order") {
      requests.orders["specs"].push_back(absolute_order_spec(value));
      continue;
    }
    if (!requests.ram.is_null()) return make_error(ErrorCode::kInvalidArgument, "ram= is given twice");
    HEADRACE_TRY(bytes, parse_ram("ram=", value));
    requests.ram = {{"ram_bytes", bytes}};
  }
  return requests;
}

io::Status run_set(const SetArguments& arguments) {
  HEADRACE_TRY(requests, parse_settings(arguments.settings));
  if (!requests.ram.is_null()) {
    HEADRACE_TRY_DO(call_daemon(arguments.mount_point, "set", requests.ram).map([](const json&) {}));
  }
  if (requests.orders["specs"].empty()) return {};
  return call_daemon(arguments.mount_point, "order", requests.orders).map([](const json&) {});
}

}  // namespace

void add_set_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<SetArguments> arguments;
  CLI::App& command =
      add_command(app, selected, {kMountCommands, "set", "Change a mount while it is read"}, run_set, arguments);
  add_mount_point(command, arguments->mount_point);
  command
      .add_option("NAME=VALUE", arguments->settings, "ram=SIZE, as --ram of mount; order=SPEC, as headrace order set")
      ->required();
  command.footer(
      "What no longer fits goes at once; what fits now is read ahead. What is on its\n"
      "way keeps the share of memory that it was mounted with.\n\n"
      "Examples:\n"
      "  headrace set /mnt/train ram=8G\n"
      "  headrace set /mnt/train ram=40% order=torch-distributed:seed=1");
}

}  // namespace headrace::cli
