// SPDX-License-Identifier: Apache-2.0
// What starts in which order: everything that the command line alone can make wrong is refused before the process forks
// into the background. There the supervisor mounts and forks the worker. The worker opens the store (which scans the
// source), then the mount, the control socket and the metrics. They end in the reverse order.
#include "headrace/cli/commands/mount.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "headrace/cache/object_store.h"
#include "headrace/cache/refresher.h"
#include "headrace/cli/daemon/control.h"
#include "headrace/cli/daemon/daemon.h"
#include "headrace/cli/daemon/handover.h"
#include "headrace/cli/daemon/kept_settings.h"
#include "headrace/cli/daemon/memcached.h"
#include "headrace/cli/daemon/metrics.h"
#include "headrace/cli/daemon/mount_service.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/options/config_file.h"
#include "headrace/cli/options/options.h"
#include "headrace/cli/setup/choices.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/setup/pack.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/setup/sets.h"
#include "headrace/cli/setup/size.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/version.h"
#include "headrace/fuse/mount.h"
#include "headrace/fuse/supervisor.h"
#include "headrace/io/log.h"
#include "headrace/io/memory_limit.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;

// The spec that asks for the order to be found out from the reader's opens.
constexpr std::string_view kLearnedOrder = "auto";

struct MountPlan {
  Source source;
  fs::path mount_point;  // canonical
  bool over_source = false;
  std::uint64_t ram_bytes = 0;  // of what is pushed
  std::uint64_t source_rate = 0;
  cache::StoreOptions store;
  std::vector<std::string> orders;
  fs::path order_records;  // what was learned in earlier runs
  fs::path working_folder;
  MemcachedPlan memcached;
};

constexpr std::uint64_t kMiB = 1 << 20;
// A READ of any file and the largest piece that is pushed fit in side by side: 8 MiB and a page each.
constexpr std::uint64_t kStagingLeast = 17 * kMiB;
constexpr std::uint64_t kRamLeast = 20 * kMiB;  // and something is left to push

// Memory for pieces of files on their way: when several READs ask for the same piece, it is fetched once and lies here.
// It is a part of what the user gave: an eighth, and where that is little, at most a half. 32 MiB hold the reads in
// flight of one disk, 256 MiB those of many. A mount that is to push nothing needs it all the same.
std::uint64_t staging_bytes(std::uint64_t ram_bytes) {
  const std::uint64_t wanted = std::clamp(ram_bytes / 8, 32 * kMiB, 256 * kMiB);
  const std::uint64_t most = ram_bytes > 0 ? ram_bytes / 2 : io::memory_limit_bytes() / 8;
  return std::max(std::min(wanted, most), kStagingLeast);
}

// Divides the memory that was asked for between the store and what is pushed; `asked_for`: as it was typed, if it was.
io::Status divide_memory(const std::string& asked_for, MountPlan& plan) {
  std::uint64_t ram = plan.store.ram_bytes;
  if (asked_for.empty()) ram = std::max(ram, kRamLeast);
  if (ram > 0 && ram < kRamLeast) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("--ram {}: a mount needs at least {}M; take that, or 0 to push nothing", asked_for,
                                  kRamLeast / kMiB));
  }
  plan.store.ram_bytes = staging_bytes(ram);
  plan.ram_bytes = ram - std::min(ram, plan.store.ram_bytes);
  return {};
}

// What mount(8) and findmnt(8) list as the source. It is not the bare path: somebody who types "umount SOURCE" means
// the file system that is mounted at the source, but umount(8) would take the words for the name of this mount.
std::string mounted_name(const Source& source) {
  return "headrace:" + source.path.string();
}

io::Status check_empty(const fs::path& mount_point, const struct stat& status) {
  struct stat parent {};
  const bool is_mount = ::stat((mount_point / "..").c_str(), &parent) == 0 && parent.st_dev != status.st_dev;
  std::error_code failure;
  if (is_mount || fs::is_empty(mount_point, failure)) return {};  // mounting finds out what is mounted there
  if (failure) return io::system_error(failure.value(), "mount point " + mount_point.string());
  return make_error(ErrorCode::kSystem, fmt::format("mount point {} is not empty; give an empty folder, or the source",
                                                    mount_point.string()));
}

// True when the mount is to cover the source.
io::Result<bool> check_mount_point(const fs::path& mount_point, const Source& source) {
  struct stat at_source {};
  struct stat at_mount {};
  if (::stat(mount_point.c_str(), &at_mount) != 0) {
    if (errno == ENOTCONN) return false;  // a mount whose daemon died; it is cleared when the new one is mounted
    if (errno == ENOENT) {
      return make_error(ErrorCode::kNotFound,
                        fmt::format("mount point {0} does not exist; make it with mkdir -p {0}", mount_point.string()));
    }
    return io::system_error(errno, "mount point " + mount_point.string());
  }
  if (!S_ISDIR(at_mount.st_mode)) {
    return make_error(ErrorCode::kNotFound, fmt::format("mount point {} is not a folder", mount_point.string()));
  }
  if (source.is_bucket()) return check_empty(mount_point, at_mount).map([] { return false; });
  if (::fstat(source.directory.get(), &at_source) != 0) return io::system_error(errno, source.path.string());
  if (at_source.st_dev == at_mount.st_dev && at_source.st_ino == at_mount.st_ino) return true;
  HEADRACE_TRY_DO(check_empty(mount_point, at_mount));
  return false;
}

// What the daemon opens itself must not lie where it mounts: it would wait for its own answer, for ever.
io::Status check_outside(const MountPlan& plan) {
  const auto check = [&](const char* what, const fs::path& path) -> io::Status {
    if (path.empty() || !is_inside(path, plan.mount_point)) return {};
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} {} lies inside the mount point {}, which will cover it; choose a place elsewhere",
                                  what, path.string(), plan.mount_point.string()));
  };
  for (const cache::TierOptions& tier : plan.store.tiers) HEADRACE_TRY_DO(check("tier", tier.path));
  HEADRACE_TRY_DO(check("list", plan.store.catalog.sample_list));
  constexpr std::string_view kFile = "file:";
  for (const std::string& order : plan.orders) {
    const std::string spec = parse_named_spec(order).spec;
    if (spec.starts_with(kFile)) HEADRACE_TRY_DO(check("list", canonical_path(spec.substr(kFile.size()))));
  }
  return {};
}

// What can be said before the source is listed.
io::Status check_records(const MountArguments& arguments, const MountPlan& plan) {
  if (arguments.records.empty()) return {};
  const std::string& order = plan.orders.front();
  if (plan.orders.size() > 1 || order.empty() || order == kLearnedOrder || !parse_named_spec(order).folder.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--records: records are pushed along an order that is known; give one, such as --order "
                      "torch-random:seed=42");
  }
  if (!cache::is_object_url(plan.source.path.native())) return {};  // in a check of a handover no folder is open
  return make_error(ErrorCode::kInvalidArgument, "--records: the index of a pack is read from a folder, not a bucket");
}

// What the options say, once source and mount point are known. `shares`: its memcached runs already.
io::Status add_options(const MountArguments& arguments, MountPlan& plan, bool shares = false) {
  HEADRACE_TRY(store, make_store_options(plan.source, arguments.cache, "25%"));
  plan.store = std::move(store);
  plan.store.source_path_covered = plan.over_source;
  plan.store.catalog_may_be_old = true;  // a Refresher compares it
  HEADRACE_TRY_DO(divide_memory(arguments.cache.ram, plan));
  HEADRACE_TRY(source_rate, parse_rate("--source-rate", arguments.source_rate));
  plan.source_rate = source_rate;
  for (const std::string& order : arguments.orders) plan.orders.push_back(absolute_order_spec(order));
  HEADRACE_TRY_DO(check_outside(plan));
  HEADRACE_TRY_DO(check_records(arguments, plan));
  plan.order_records = plan.store.catalog_file.parent_path() / "orders";
  std::error_code failure;
  plan.working_folder = fs::current_path(failure);
  HEADRACE_TRY(memcached, plan_memcached(plan.store.shared, shares));
  plan.memcached = std::move(memcached);
  return {};
}

io::Result<MountPlan> make_plan(const MountArguments& arguments) {
  MountPlan plan;
  if (arguments.source.empty() || arguments.mount_point.empty()) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} is missing: give it here or in the --config file",
                                                               arguments.source.empty() ? "SOURCE" : "MOUNTPOINT"));
  }
  HEADRACE_TRY(source, open_source(arguments.source));
  plan.source = std::move(source);
  plan.mount_point = canonical_path(arguments.mount_point);
  HEADRACE_TRY(over_source, check_mount_point(plan.mount_point, plan.source));
  plan.over_source = over_source;
  HEADRACE_TRY_DO(add_options(arguments, plan));
  return plan;
}

// Touches neither the mount, where a stand-in answers, nor the path of the source, which the mount may cover.
io::Result<MountPlan> make_plan(const MountArguments& arguments, const Handover& handover) {
  MountPlan plan;
  plan.source = {handover.source, io::UniqueFd(handover.source_fd)};
  plan.mount_point = handover.mount_point;
  plan.over_source = handover.over_source;
  if (::chdir(handover.working_folder.c_str()) != 0) {
    return io::system_error(errno, "the folder in which it was mounted, " + handover.working_folder.string());
  }
  HEADRACE_TRY_DO(add_options(arguments, plan, handover.memcached_keeper > 0));
  return plan;
}

// The index is read from the folder that was opened before the mount may have covered it.
io::Status follow_records(const MountArguments& arguments, const MountPlan& plan, const cache::Store& store,
                          fuse::MountOptions& options) {
  HEADRACE_TRY(pack, open_pack(plan.source, store.catalog(), arguments.records));
  HEADRACE_TRY(order, open_record_order(plan.orders.front(), pack.map, ListFiles::kRegular));
  const std::optional<cache::EntryId> entry = store.catalog().find(pack.path);
  if (!entry) return make_error(ErrorCode::kNotFound, pack.path + ": is not in the catalog; mount anew");
  options.pack = *entry;
  options.records = std::make_shared<const cache::RecordMap>(std::move(pack.map));
  options.order = std::move(order);
  io::log_info("{}: {} records in {}", plan.mount_point.string(), options.records->count(), pack.path);
  return {};
}

io::Result<std::unique_ptr<fuse::Mount>> start_mount(const MountArguments& arguments, const MountPlan& plan,
                                                     cache::Store& store, fuse::Channel& channel) {
  fuse::MountOptions options;
  options.mountpoint = plan.mount_point;
  options.source_name = mounted_name(plan.source);
  options.ram_bytes = plan.ram_bytes;
  options.source_rate = plan.source_rate;
  options.first_epoch = arguments.first_epoch;
  options.allow_other = arguments.allow_other;
  options.over_source = plan.over_source;
  options.overlay = arguments.overlay ? fuse::OverlayMode::kRequired : fuse::OverlayMode::kOff;
  if (!arguments.records.empty()) {
    const io::Status followed = follow_records(arguments, plan, store, options);
    if (!followed && !channel.init_answered()) return io::forward_error(io::Status(followed));
    // The mount is there already, and its readers go on.
    if (!followed) io::log_warning("{}; the pack is read as a plain file", followed.error().message());
    return fuse::Mount::start(store, std::move(options), channel);
  }
  const bool has_one = plan.orders.size() == 1;
  const bool is_unknown = plan.orders.empty() || (has_one && plan.orders.front().empty());
  options.learn_order = !is_unknown;
  options.order_records = plan.order_records;
  if (!is_unknown && !(has_one && plan.orders.front() == kLearnedOrder)) {
    HEADRACE_TRY(orders, open_orders(plan.orders, store.catalog(), ListFiles::kRegular));
    options.order = std::move(orders.front());
    options.else_orders.assign(std::make_move_iterator(orders.begin() + 1), std::make_move_iterator(orders.end()));
  }
  return fuse::Mount::start(store, std::move(options), channel);
}

// What this node gives to the others, for `stat`; null where it shares with nobody.
nlohmann::json describe_share(const MountPlan& plan) {
  if (plan.store.shared.peers.empty()) return nullptr;
  return {{"bytes", plan.store.shared.bytes_per_peer},
          {"tls", !plan.store.shared.certificates.empty()},
          {"peer", plan.memcached.peer},
          {"command", as_command_line(plan.memcached.words)},
          {"why_not_started", plan.memcached.why_not}};
}

// What runs beside the mount is said before it runs.
void tell_what_is_shared(const MountPlan& plan) {
  if (plan.store.shared.peers.empty()) return;
  if (plan.memcached.words.empty()) {
    fmt::print(stderr, "headrace: starts no memcached: {}\n", plan.memcached.why_not);
  } else {
    fmt::print(stderr, "headrace: starts {}\n", as_command_line(plan.memcached.words));
  }
}

// Serves until a signal comes or somebody unmounts.
void serve_until_stopped(fuse::Mount& mount, StopSignal& stop) {
  std::thread watcher([&] {
    ::pthread_setname_np(::pthread_self(), "hr-watch");
    mount.wait();
    stop.request();
  });
  stop.wait();
  mount.stop();
  watcher.join();
}

Handover describe(const MountArguments& arguments, const MountPlan& plan, const KeptSettings& kept,
                  const fuse::Channel& channel) {
  return {.channel = channel.parts(),
          .kept_fd = kept.fd(),
          .source_fd = plan.source.directory.get(),
          .source = plan.source.path,
          .mount_point = plan.mount_point,
          .working_folder = plan.working_folder,
          .over_source = plan.over_source,
          .can_take_over = channel.can_resend(),
          .words = arguments.words};
}

// Runs in the process that serves. When that dies, the supervisor starts another one.
io::Status work(const MountArguments& arguments, const MountPlan& plan, KeptSettings& kept, fuse::Channel& channel,
                const ReadyCallback& ready) {
  StopSignal stop;
  cache::StoreOptions store_options = plan.store;
  store_options.catalog_fd = channel.catalog_fd();
  HEADRACE_TRY(store, open_store(store_options, stop));
  HEADRACE_TRY(mount, start_mount(arguments, plan, *store, channel));
  if (const std::optional<std::uint64_t> bytes = kept.pushed_bytes()) mount->set_ram_bytes(*bytes);
  if (const std::optional<std::uint64_t> rate = kept.source_rate()) mount->set_source_rate(*rate);
  // A bucket was listed just now, object by object, and another listing costs money. A worker that takes over has the
  // catalog of the one before.
  const bool is_known = plan.source.is_bucket() && !store->catalog().was_saved();
  cache::Refresher refresher(*store, {.every = std::chrono::seconds(arguments.revalidate_seconds),
                                      .at_start = !is_known,
                                      .on_told = [&mount] { mount->wait_until_forgotten(); }});
  MountService service(*store, *mount, refresher, kept, describe(arguments, plan, kept, channel), describe_share(plan));
  HEADRACE_TRY(socket, control_socket_of(plan.mount_point));
  HEADRACE_TRY(server, ControlServer::start(socket, [&](std::string_view line) { return service.answer(line); }));
  HEADRACE_TRY(metrics, start_metrics("--metrics", arguments.metrics, [&] {
                 return std::vector<MountFigures>{{plan.mount_point.string(), service.stat()}};
               }));

  io::log_info("{} mounted at {}: {} samples", plan.source.path.string(), plan.mount_point.string(),
               store->catalog().sample_count());
  ready();
  serve_until_stopped(*mount, stop);
  io::log_info("{} unmounted", plan.mount_point.string());
  return {};
}

// `taken`: what the program before this one handed over.
io::Status serve(const MountArguments& arguments, const MountPlan& plan, const ReadyCallback& ready,
                 const std::optional<Handover>& taken = std::nullopt) {
  HEADRACE_TRY(kept, taken ? KeptSettings::take_over(io::UniqueFd(taken->kept_fd)) : KeptSettings::make());
  std::optional<MemcachedKeeper> memcached;  // ends when the mount has ended
  if (taken && taken->memcached_keeper > 0) {
    memcached.emplace(MemcachedKeeper::take_over(taken->memcached_keeper));
  } else if (!plan.memcached.words.empty()) {
    HEADRACE_TRY(keeper, MemcachedKeeper::start(plan.memcached));
    memcached.emplace(std::move(keeper));
  }
  fuse::SupervisorOptions options;
  options.channel.mountpoint = plan.mount_point;
  options.channel.source_name = mounted_name(plan.source);
  options.channel.allow_other = arguments.allow_other;
  options.channel.over_source = plan.over_source;
  options.channel.scratch_folder = plan.store.catalog_file.parent_path();
  options.worker = [&](fuse::Channel& channel, const ReadyCallback& worker_ready) {
    return work(arguments, plan, kept, channel, worker_ready);
  };
  options.stand_in = [&](fuse::Channel& channel) -> io::Status {
    cache::StoreOptions store_options = plan.store;
    store_options.catalog_fd = channel.catalog_fd();
    store_options.tiers.clear();  // the worker that has died still holds their locks
    HEADRACE_TRY(store, cache::Store::open(store_options));
    return fuse::stand_in(*store, channel);
  };
  options.on_ready = ready;
  options.on_stop_signal = note_stop_signal;
  options.hand_over = [&](const fuse::Channel& channel, pid_t stand_in) {
    Handover handover = describe(arguments, plan, kept, channel);
    handover.stand_in = stand_in;
    handover.memcached_keeper = memcached ? memcached->pid() : -1;
    const io::Status status = replace_program(kept.program(), handover);
    io::log_error("mount {}: stays with this program: {}", plan.mount_point.string(), status.error().message());
  };
  if (!taken) return fuse::supervise(options);
  HEADRACE_TRY(channel, fuse::Channel::take_over(taken->channel));
  return fuse::go_on(options, std::move(channel), taken->stand_in);
}

// The log has each name, but whoever mounts may not look there: class labels differ from those of the whole data set.
io::Status tell_what_is_missing(const fs::path& mount_point) {
  HEADRACE_TRY(stat, call_daemon(mount_point, "stat", nlohmann::json::object()));
  const std::uint64_t count = number_of(member_of(stat, "data_set"), "unreadable");
  if (count > 0) {
    fmt::print(stderr, "headrace: {} folders or files could not be read and are left out; the log names them\n", count);
  }
  return {};
}

io::Result<io::LogLevel> parse_log_level(const std::string& name) {
  constexpr Choice<io::LogLevel> kLevels[] = {{"debug", io::LogLevel::kDebug},
                                              {"info", io::LogLevel::kInfo},
                                              {"warning", io::LogLevel::kWarning},
                                              {"error", io::LogLevel::kError}};
  return choose("--log-level", name, kLevels);
}

// `file` outlives the parsing, because it is read when all options are known.
void add_config_option(CLI::App& command, const std::shared_ptr<std::string>& file) {
  command.add_option("--config", *file, "Read options from this TOML file; see headrace config --help")
      ->type_name("FILE")
      ->group("Mount");
}

// Each option that was given, wherever it was given.
std::vector<std::string> words_of(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options()) {
    const bool is_word = !option->get_positional() && !option->get_lnames().empty() && option->count() > 0;
    if (!is_word || option->get_lnames().front() == "config") continue;
    const std::string name = "--" + option->get_lnames().front();
    for (const std::string& value : option->results())
      words.push_back(fmt::format("{}={}", name, value));  // a flag may be false
  }
  return words;
}

struct TakeOverArguments {
  int descriptor = -1;
  MountArguments mount;
};

// The terminal was left by the program before this one; stderr is a socket where it is the journal.
io::Status run_take_over(const TakeOverArguments& arguments) {
  io::UniqueFd descriptor(arguments.descriptor);
  HEADRACE_TRY(handover, read_handover(descriptor.get()));
  descriptor.reset();  // or each upgrade would leave one more open
  if (handover.is_trial) return check_handover(handover);
  HEADRACE_TRY(level, parse_log_level(arguments.mount.log_level));
  HEADRACE_TRY(plan, make_plan(arguments.mount, handover));
  ::fcntl(plan.source.directory.get(), F_SETFD, FD_CLOEXEC);
  struct stat log {};
  if (::fstat(STDERR_FILENO, &log) == 0 && S_ISSOCK(log.st_mode)) io::set_log_to_journal();
  io::set_log_level(level);
  if (!arguments.mount.foreground && ::chdir("/") != 0) return io::system_error(errno, "chdir /");
  io::log_info("mount {}: headrace {} goes on", plan.mount_point.string(), kVersion);
  return serve(
      arguments.mount, plan, [] {}, handover);
}

}  // namespace

io::Status check_handover(const Handover& handover) {
  CLI::App scratch;
  MountArguments arguments;
  add_mount_options(scratch, arguments);
  try {
    scratch.parse(std::vector<std::string>(handover.words.rbegin(), handover.words.rend()));
  } catch (const CLI::ParseError& failure) {
    return make_error(ErrorCode::kInvalidArgument, failure.what());
  }
  HEADRACE_TRY_DO(parse_log_level(arguments.log_level).map([](io::LogLevel) {}));
  Handover here = handover;
  here.source_fd = -1;  // the number is the daemon's
  return make_plan(arguments, here).map([](const MountPlan&) {});
}

io::Status check_mount(const MountArguments& arguments) {
  HEADRACE_TRY_DO(parse_log_level(arguments.log_level).map([](io::LogLevel) {}));
  HEADRACE_TRY_DO(check_metrics_address("--metrics", arguments.metrics));
  return make_plan(arguments).map([](const MountPlan&) {});
}

io::Result<fs::path> configured_mount_point(const std::string& file) {
  CLI::App scratch;
  MountArguments arguments;
  add_mount_options(scratch, arguments);
  try {
    apply_config_file(scratch, file);
  } catch (const CLI::ParseError& failure) {
    return make_error(ErrorCode::kInvalidArgument, failure.what());
  }
  if (!arguments.mount_point.empty()) return arguments.mount_point;
  return make_error(ErrorCode::kInvalidArgument, file + " names no mountpoint");
}

io::Status run_mount(const MountArguments& arguments) {
  HEADRACE_TRY(level, parse_log_level(arguments.log_level));
  HEADRACE_TRY_DO(check_metrics_address("--metrics", arguments.metrics));
  HEADRACE_TRY(plan, make_plan(arguments));
  io::set_log_level(level);
  tell_what_is_shared(plan);
  const std::string log_name = file_name_for(plan.mount_point.filename().native(), plan.mount_point.native(), ".log");
  const DaemonBody body = [&](const ReadyCallback& ready) { return serve(arguments, plan, ready); };
  if (arguments.foreground) return run_in_foreground(body);
  HEADRACE_TRY_DO(run_detached({.log_name = log_name}, body));
  return arguments.cache.accept_unreadable ? tell_what_is_missing(plan.mount_point) : io::Status{};
}

void add_mount_options(CLI::App& command, MountArguments& arguments) {
  command.add_option("SOURCE", arguments.source, "The folder or bucket that holds the data set");
  command.add_option("MOUNTPOINT", arguments.mount_point,
                     "An empty folder, or SOURCE itself: the mount then covers it");
  add_ram_size(command, arguments.cache);
  add_tier_options(command, arguments.cache);
  command
      .add_option(
          "--source-rate", arguments.source_rate,
          "Read at most this much of the source per second ahead of the loader; what it waits for is never held up")
      ->type_name("SIZE")
      ->group(kSpecialGroup);
  command
      .add_option("--order", arguments.orders,
                  "The order in which the loader reads, or FOLDER=SPEC once for each folder that is read, such as "
                  "train=torch-distributed:seed=0; auto finds it out from the opens; see headrace order --help")
      ->type_name("SPEC")
      ->allow_extra_args(false)
      ->default_str("auto")
      ->group(kOrderGroup);
  command
      .add_option("--records", arguments.records,
                  "The order is over the records of the one packed file in SOURCE: auto, a format, or "
                  "stride=BYTES,offset=BYTES; see headrace order --help")
      ->type_name("FORMAT")
      ->group(kOrderGroup);
  add_number(command, "--epoch", arguments.first_epoch, "The epoch that comes first (resuming a training)")
      ->type_name("E")
      ->group(kOrderGroup);
  add_listing_options(command, arguments.cache);
  add_bucket_options(command, arguments.cache);
  command.add_flag("--foreground,-f", arguments.foreground, "Stay in the foreground, log to stderr")->group("Mount");
  command.add_flag("--allow-other", arguments.allow_other, "Other users may read too, as file permissions allow")
      ->group("Mount");
  command
      .add_flag("--overlay", arguments.overlay, "Put a read-only overlay on top: faster for Python < 3.14; needs root")
      ->group("Mount");
  add_number(command, "--revalidate", arguments.revalidate_seconds,
             "Look for changes of the source this often; without it only at the start and on headrace refresh")
      ->type_name("SECONDS")
      ->group("Mount");
  command.add_option("--log-level", arguments.log_level, "What is logged")
      ->type_name("debug|info|warning|error")
      ->capture_default_str()
      ->group("Mount");
  command
      .add_option("--metrics", arguments.metrics, "Serve a Prometheus page there; 127.0.0.1 unless an address is given")
      ->type_name("[ADDRESS:]PORT")
      ->group("Mount");
  add_engine_option(command, arguments.cache);
}

void add_mount_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<MountArguments> arguments;
  CLI::App& command = add_command(
      app, selected, {kMountCommands, "mount", "Show a data set through a mount that reads ahead of the loader"},
      run_mount, arguments);
  add_mount_options(command, *arguments);
  const auto config = std::make_shared<std::string>();
  add_config_option(command, config);
  add_environment_names(command);
  command.callback([&command, &selected, arguments, config] {
    if (!config->empty()) apply_config_file(command, *config);
    arguments->words = words_of(command);
    selected = [arguments] { return run_mount(*arguments); };
  });
  command.footer(
      "Each option can also be set in the environment: HEADRACE_RAM=16G, and so on.\n\n"
      "Examples:\n"
      "  headrace mount /data/imagenet/train /mnt/train --ram 16G\n"
      "  headrace mount /nfs/train /nfs/train --ssd /nvme/headrace:200G \\\n"
      "      --order torch-distributed:seed=0,replicas=8,rank=3\n"
      "  headrace mount s3://bucket/train /mnt/train --ssd /nvme/headrace:200G\n"
      "  headrace mount /nfs/lmdb /mnt/lmdb --records auto --order torch-random:seed=42");
}

void add_take_over_command(CLI::App& app, Selected& selected) {
  std::shared_ptr<TakeOverArguments> arguments;
  CLI::App& command = add_command(app, selected, {"", "take-over", "Go on with the mount of the program before"},
                                  run_take_over, arguments);
  command.add_option("DESCRIPTOR", arguments->descriptor, "Where the handover is read")->required();
  add_mount_options(command, arguments->mount);
  command.callback([&command, &selected, arguments] {
    arguments->mount.words = words_of(command);
    selected = [arguments] { return run_take_over(*arguments); };
  });
}

}  // namespace headrace::cli
