// SPDX-License-Identifier: Apache-2.0
// headrace metrics: one page of figures for all mounts of this machine that are this user's.
#include "headrace/cli/daemon/metrics.h"

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <pthread.h>
#include <unistd.h>

#include "headrace/cli/commands/commands.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/terminal.h"
#include "headrace/fuse/mounts.h"

namespace headrace::cli {
namespace {

struct MetricsArguments {
  std::string address = "9750";
};

// 4 s: Prometheus itself waits 10 s for a page, and a daemon that is well answers within milliseconds.
constexpr std::chrono::milliseconds kPagePatience{4'000};

// Mounts of other users are left out: a daemon answers its own user alone. All are asked at once, so that one that
// hangs costs the others nothing.
std::vector<MountFigures> look_at_mounts() {
  std::vector<MountFigures> mounts;
  std::set<std::string> known;  // two series of one name would spoil the page
  for (const fuse::SeenMount& mount : fuse::seen_mounts()) {
    const bool is_own = !mount.user || *mount.user == ::geteuid();
    if (is_own && known.insert(mount.path.string()).second) mounts.push_back({.mount_point = mount.path.string()});
  }
  std::vector<std::jthread> asking;  // joined at the end, also where the process may have no more of them
  asking.reserve(mounts.size());
  for (MountFigures& mount : mounts) {
    asking.emplace_back([&mount] {
      ::pthread_setname_np(::pthread_self(), "hr-ask");
      auto stat = query_daemon(mount.mount_point, "stat", kPagePatience);
      if (stat) mount.stat = std::move(*stat);
    });
  }
  asking.clear();
  return mounts;
}

io::Status run_metrics(const MetricsArguments& arguments) {
  if (arguments.address.empty()) {
    return io::make_error(io::ErrorCode::kInvalidArgument, "metrics: ADDRESS is empty; give a port, such as 9750");
  }
  StopSignal stop;
  HEADRACE_TRY(server, start_metrics("metrics", arguments.address, MetricsPage::kMachine, look_at_mounts));
  print_line(stderr, "headrace: the mounts of this user are at " + server->url() + "; Ctrl-C ends it");
  stop.wait();
  return {};
}

}  // namespace

void add_metrics_command(Command& program) {
  std::shared_ptr<MetricsArguments> arguments;
  Command& command =
      add_command(program, {kMountCommands, "metrics", "Serve one Prometheus page for all your mounts on this machine"},
                  run_metrics, arguments);
  command.add({.name = "ADDRESS",
               .target = &arguments->address,
               .help = "Where to listen; 127.0.0.1 unless an address is given",
               .shows_default = true});
  command.footer =
      "It shows the mounts of the user who runs it. One whose daemon does not answer\n"
      "has headrace_up 0. /healthz answers while it runs.\n\n"
      "Examples:\n  headrace metrics\n  headrace metrics 10.0.0.7:9750";
}

}  // namespace headrace::cli
