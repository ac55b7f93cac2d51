// SPDX-License-Identifier: Apache-2.0
// headrace diagnose: whether a training waits for its data, and why.
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headrace/cache/sample_sizes.h"
#include "headrace/cli/commands/commands.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/doctor/diagnosis.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/cache_arguments.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/watch.h"
#include "headrace/cli/show/wrap.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using nlohmann::json;
using std::chrono::milliseconds;

struct DiagnoseArguments {
  std::filesystem::path target;  // source folder or mount point
  CacheArguments cache;
  std::uint32_t seconds = 10;        // how long the loader is watched, and how long storage and decoding are measured
  std::vector<std::string> command;  // starts the training that is watched; empty: it runs already
  bool json = false;
};

// The user's training while it is watched. It and all processes that it starts are a process group of their own.
// The destructor sends SIGTERM and kills what does not end by that.
class Command {
 public:
  static io::Result<Command> start(std::vector<std::string> words) {
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    // This program has blocked the signals that it waits for; the command gets them as usual.
    posix_spawnattr_t attributes;
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_t actions;  // the command writes to stderr: stdout is for the diagnosis alone
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    Command command;
    const int failure = ::posix_spawnp(&command.pid_, arguments[0], &actions, &attributes, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    if (failure != 0) return io::system_error(failure, "run " + words.front());
    return command;
  }
  ~Command() {
    if (pid_ <= 0) return;
    constexpr int kPatienceMs = 5000;  // a training may write a checkpoint first
    ::kill(-pid_, SIGTERM);
    const io::UniqueFd ended(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    pollfd watched{ended.get(), POLLIN, 0};
    ::poll(&watched, 1, kPatienceMs);
    ::kill(-pid_, SIGKILL);  // before waitpid(): afterwards the number of the group may belong to others
    ::waitpid(pid_, nullptr, 0);
  }
  Command(Command&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Command& operator=(Command&&) = delete;

 private:
  Command() = default;
  pid_t pid_ = -1;
};

// How fast the loader of a mount reads, and how much of it lay in memory.
io::Result<LoaderRate> watch_loader(const DiagnoseArguments& arguments) {
  StopSignal stop;  // a signal ends the command too
  std::optional<io::Result<Command>> command;
  if (!arguments.command.empty()) {
    command.emplace(Command::start(arguments.command));
    if (!*command) return tl::unexpected(command->error());
  }
  WatchHistory history;
  for (int i = 0; i < 2; ++i) {
    HEADRACE_TRY(stat, call_daemon(arguments.target, "stat", json::object()));
    history.add(sample_from(stat));
    if (i == 0 && stop.wait_for(milliseconds(1000 * arguments.seconds))) {
      return make_error(ErrorCode::kCancelled, "stopped by a signal");
    }
  }
  return LoaderRate{history.rates(&WatchSample::opens).front(), history.hit_ratios().front()};
}

void print(const Measured& measured, const std::vector<Prospect>& prospects) {
  fmt::print("source    {:>8.0f} samples/s, {}/s, whole files in shuffled order\n", measured.source.samples_per_second,
             format_size(static_cast<std::uint64_t>(measured.source.bytes_per_second)));
  if (measured.tiers.samples_per_second > 0) {
    fmt::print("tiers     {:>8.0f} samples/s, {}/s, held by the disk tiers, in shuffled order\n",
               measured.tiers.samples_per_second,
               format_size(static_cast<std::uint64_t>(measured.tiers.bytes_per_second)));
  }
  if (measured.decode.samples_per_second > 0) {
    fmt::print("decoding  {:>8.0f} samples/s on the cores that may be used\n", measured.decode.samples_per_second);
  }
  if (measured.has_loader) {
    fmt::print("loader    {:>8.0f} samples/s, {:.1f}% found in memory\n", measured.loader.samples_per_second,
               100 * measured.loader.hit_ratio);
  }
  fmt::print("\n{}\n\n{:<36}{:>12}   {}\n", wrap(verdict(measured), {.columns = 78}),
             measured.tiers.samples_per_second > 0 ? "held on these tiers" : "held in RAM or on an SSD", "samples/s",
             "bound by");
  for (const Prospect& prospect : prospects) {
    std::string change = fmt::format("{:.0f}%, {}", 100 * prospect.cached_fraction, format_size(prospect.cached_bytes));
    if (prospect.cores_factor > 1) change += fmt::format(", {} times the cores", prospect.cores_factor);
    fmt::print("{:<36}{:>12.0f}   {}\n", change, prospect.samples_per_second, prospect.bound_by);
  }
}

json to_json(const Measured& measured, const std::vector<Prospect>& prospects) {
  json table = json::array();
  for (const Prospect& prospect : prospects) {
    table.push_back({{"cached_fraction", prospect.cached_fraction},
                     {"cached_bytes", prospect.cached_bytes},
                     {"cores_factor", prospect.cores_factor},
                     {"samples_per_second", prospect.samples_per_second},
                     {"bound_by", prospect.bound_by}});
  }
  json result = {{"source_samples_per_second", measured.source.samples_per_second},
                 {"source_bytes_per_second", measured.source.bytes_per_second},
                 {"tier_samples_per_second", measured.tiers.samples_per_second},
                 {"tier_bytes_per_second", measured.tiers.bytes_per_second},
                 {"decode_samples_per_second", measured.decode.samples_per_second},
                 {"verdict", verdict(measured)},
                 {"prospects", std::move(table)}};
  if (measured.has_loader) {
    result["loader_samples_per_second"] = measured.loader.samples_per_second;
    result["loader_hit_ratio"] = measured.loader.hit_ratio;
  }
  return result;
}

// The folder to measure: the source of a mount, else the target. A mount that covers its source is measured through.
std::filesystem::path source_of(const std::filesystem::path& target, bool& is_mount) {
  const io::Result<json> stat = call_daemon(target, "stat", json::object());
  is_mount = stat.has_value();
  return is_mount ? std::filesystem::path(text_of(*stat, "source")) : target;
}

// Gives each measurement the same part of `time`.
io::Status measure_storage(cache::Store& store, milliseconds time, Measured& measured) {
  const bool has_tiers = store.stats().tiers.size() > 2;  // more than RAM and the source
  const milliseconds share = time / (has_tiers ? 3 : 2);
  const auto measure = [&](auto how, SampleRate& rate) -> io::Status {
    HEADRACE_TRY(result, how(store, share));
    rate = result;
    return {};
  };
  HEADRACE_TRY_DO(measure(measure_source, measured.source));
  if (has_tiers) {  // after the source: its reads have filled the tiers as far as there was room
    HEADRACE_TRY_DO(measure(measure_tiers, measured.tiers));
  }
  return measure(measure_decode, measured.decode);
}

io::Status run_diagnose(const DiagnoseArguments& arguments) {
  bool is_mount = false;
  const std::filesystem::path source_path = source_of(arguments.target, is_mount);
  if (!arguments.command.empty() && !is_mount) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a command can be watched only through a mount: headrace mount {0} MOUNTPOINT, then "
                                  "headrace diagnose MOUNTPOINT -- COMMAND",
                                  arguments.target.string()));
  }
  Measured measured;
  measured.has_loader = is_mount;
  if (is_mount) {  // first, because the measurements below would disturb the loader
    HEADRACE_TRY(loader, watch_loader(arguments));
    measured.loader = loader;
  }
  HEADRACE_TRY(source, open_source(source_path));
  HEADRACE_TRY(options, make_store_options(source, arguments.cache, "256M"));
  HEADRACE_TRY(store, cache::Store::open(options));
  HEADRACE_TRY_DO(check_not_empty(source_path, store->catalog()));
  HEADRACE_TRY_DO(measure_storage(*store, milliseconds(1000 * arguments.seconds), measured));
  HEADRACE_TRY(order, open_order("torch-distributed:seed=0", store->catalog()));

  const std::vector<Prospect> prospects = predict(measured, cache::content_sizes(store->catalog()), *order);
  if (arguments.json) {
    print_json(to_json(measured, prospects));
  } else {
    print(measured, prospects);
  }
  return {};
}

}  // namespace

void add_diagnose_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<DiagnoseArguments> arguments;
  CLI::App& command =
      add_command(app, selected, {kHelpCommands, "diagnose", "Find out whether a training waits for its data, and why"},
                  run_diagnose, arguments);
  command.add_option("TARGET", arguments->target, "A source folder, or a mount that a training reads")->required();
  command.add_option("COMMAND", arguments->command, "After --: a training to run and watch meanwhile");
  add_number(command, "--seconds", arguments->seconds, "How long to look")->type_name("N")->capture_default_str();
  command.add_flag("--json", arguments->json, "Print one JSON object");
  add_listing_options(command, arguments->cache);
  add_tier_options(command, arguments->cache);
  command.footer(
      "Examples:\n"
      "  headrace diagnose /data/train\n"
      "  headrace diagnose /data/train --ssd /nvme/headrace:200G\n"
      "  headrace diagnose /mnt/train --seconds 30 -- python train.py");
}

}  // namespace headrace::cli
