// SPDX-License-Identifier: Apache-2.0
// headrace peers: the nodes that a mount shares with, what they give, and how well they answer. peers init: the
// certificates by which they know each other.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cache/peer_certificates.h"
#include "headrace/cli/commands/commands.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/peer_words.h"
#include "headrace/cli/show/terminal.h"

namespace headrace::cli {
namespace {

using nlohmann::json;

struct PeersInitArguments {
  std::filesystem::path folder;
};

struct PeersArguments {
  std::filesystem::path mount_point;
  bool json = false;
};

std::string in_milliseconds(const json& peer, const char* member) {
  const double seconds = real_of(peer, member);
  return seconds > 0 ? fmt::format("{:.1f} ms", seconds * 1e3) : "-";
}

void print_peers(const json& peers) {
  std::size_t columns = 4;
  for (const json& peer : peers) columns = std::max(columns, text_of(peer, "name").size());
  fmt::print("{:<{}} {:>8} {:>10} {:>8} {:>10} {:>12} {:>8} {:>8} {:>8} {:>8} {:>8}  {}\n", "peer", columns, "samples",
             "holds", "hits", "served", "now", "misses", "given", "errors", "p50", "p99", "state");
  for (const json& peer : peers) {
    const std::string other = describe_other_list(peer);
    fmt::print("{:<{}} {:>8} {:>10} {:>8} {:>10} {:>12} {:>8} {:>8} {:>8} {:>8} {:>8}  {}\n", text_of(peer, "name"),
               columns, format_count(number_of(peer, "samples")), format_size(number_of(peer, "bytes")),
               format_count(number_of(peer, "hits")), format_size(number_of(peer, "hit_bytes")),
               format_size(static_cast<std::uint64_t>(real_of(peer, "bytes_per_second"))) + "/s",
               format_count(number_of(peer, "misses")), format_count(number_of(peer, "writes")),
               format_count(number_of(peer, "errors") + number_of(peer, "corrupt")),
               in_milliseconds(peer, "seconds_p50"), in_milliseconds(peer, "seconds_p99"),
               text_of(peer, "state") + (other.empty() ? "" : "; " + other));
  }
}

io::Status run_peers_init(const PeersInitArguments& arguments) {
  HEADRACE_TRY_DO(cache::make_peer_certificates(arguments.folder));
  fmt::print("{0} is the key to what the nodes share: mount with --peer-tls {0} on each\n", arguments.folder.string());
  return {};
}

io::Status run_peers(const PeersArguments& arguments) {
  if (arguments.mount_point.empty()) {
    return io::make_error(io::ErrorCode::kInvalidArgument, "MOUNTPOINT is missing: where is it mounted?");
  }
  HEADRACE_TRY(stat, query_daemon(arguments.mount_point, "stat"));
  const json& peers = member_of(member_of(stat, "store"), "peers");
  if (arguments.json) {
    print_json({{"peers", peers}});
  } else if (peers.empty()) {
    print_line(stdout, "this mount shares with nobody; headrace mount --peers names the nodes");
  } else {
    print_peers(peers);
  }
  return {};
}

void add_peers_init(Command& peers) {
  std::shared_ptr<PeersInitArguments> arguments;
  Command& command = add_command(peers, {"Commands", "init", "Make the certificates of a job, for mount --peer-tls"},
                                 run_peers_init, arguments);
  command.add({.name = "DIR",
               .target = &arguments->folder,
               .help = "A new folder that all nodes of the job see, and nobody else",
               .required = true});
  command.footer = "Example:\n  headrace peers init ~/job-17";
}

}  // namespace

void add_peers_command(Command& program) {
  std::shared_ptr<PeersArguments> arguments;
  Command& command =
      add_command(program, {kMountCommands, "peers", "Show the nodes that a mount shares with, and how they answer"},
                  run_peers, arguments);
  command.add({.name = "MOUNTPOINT", .target = &arguments->mount_point, .help = "Where it is mounted"});
  command.add(json_flag(arguments->json));
  add_peers_init(command);
  command.footer = "Examples:\n  headrace peers /mnt/train\n  headrace peers init ~/job-17";
}

}  // namespace headrace::cli
