// SPDX-License-Identifier: Apache-2.0
// What starts in which order: everything that the options alone can make wrong is refused before the process forks into
// the background (mount_plan.h). There the supervisor mounts and forks the worker. The worker opens the store (which
// scans the source), then the mount, the control socket and the metrics. They end in the reverse order.
#include "headrace/cli/commands/mount.h"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/cache/clear_share.h"
#include "headrace/cache/record_order.h"
#include "headrace/cache/refresher.h"
#include "headrace/cli/commands/mount_orders.h"
#include "headrace/cli/commands/mount_plan.h"
#include "headrace/cli/commands/mount_sharing.h"
#include "headrace/cli/daemon/control.h"
#include "headrace/cli/daemon/daemon.h"
#include "headrace/cli/daemon/handover.h"
#include "headrace/cli/daemon/kept_settings.h"
#include "headrace/cli/daemon/memcached.h"
#include "headrace/cli/daemon/metrics.h"
#include "headrace/cli/daemon/mount_service.h"
#include "headrace/cli/daemon/neighbours.h"
#include "headrace/cli/daemon/owner_watch.h"
#include "headrace/cli/daemon/peer_watch.h"
#include "headrace/cli/daemon/place_links.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/options/parser.h"
#include "headrace/cli/setup/choices.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/setup/sets.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/progress.h"
#include "headrace/cli/show/terminal.h"
#include "headrace/cli/version.h"
#include "headrace/fuse/mount.h"
#include "headrace/fuse/supervisor.h"
#include "headrace/io/log.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;

// The index is read from the folder that was opened before the mount may have covered it.
io::Status follow_records(const MountArguments& arguments, const MountPlan& plan, const cache::Store& store,
                          fuse::MountOptions& options) {
  HEADRACE_TRY(records, open_packs(plan.source, store.catalog(), arguments.cache, arguments.records));
  if (plan.orders.front() != kLearnedOrder) {
    HEADRACE_TRY(order, cache::make_record_order(plan.orders.front(), records, true));
    options.orders.given.push_back(std::move(order));
  } else if (records->has_shared_rows()) {
    options.orders.learn = false;
    options.fallbacks.emplace_back(
        "several rows share a record, so that their order cannot be found out; nothing is pushed without --order");
  }
  io::log_info("{}: {} records in {} packs, of which {} is the first; the maps take {} KiB of memory",
               plan.mount_point.string(), records->count(), records->packs().size(),
               store.catalog().path(records->packs().front().entry), records->memory_bytes() >> 10);
  options.fallbacks.insert(options.fallbacks.end(), records->left_out().begin(), records->left_out().end());
  options.records = std::move(records);
  return {};
}

// What is asked for wrongly is refused, as long as nobody reads yet. A pack that is broken is a file like others.
io::Status try_records(const MountArguments& arguments, const MountPlan& plan, const cache::Store& store,
                       bool has_readers, fuse::MountOptions& options) {
  options.orders.learn = true;
  options.orders.first_epoch = arguments.first_epoch;
  options.orders.record_folder = plan.order_records;
  io::Status followed = follow_records(arguments, plan, store, options);
  if (followed) return {};
  if (followed.error().code == ErrorCode::kInvalidArgument && !has_readers) return followed;
  options.fallbacks.push_back("no records: " + followed.error().message() + "; packs are read as plain files");
  return {};
}

io::Result<std::unique_ptr<fuse::Mount>> start_mount(const MountArguments& arguments, const MountPlan& plan,
                                                     KeptSettings& kept, cache::Store& store, fuse::Channel& channel) {
  fuse::MountOptions options;
  options.mountpoint = plan.mount_point;
  options.source_name = mounted_name(plan.source.path);
  options.ram_bytes = plan.ram_bytes;
  options.source_rate = plan.source_rate;
  options.allow_other = arguments.allow_other;
  options.over_source = plan.over_source;
  options.overlay = arguments.overlay ? fuse::OverlayMode::kRequired : fuse::OverlayMode::kOff;
  options.scratch = plan.scratch;
  options.opening_file = plan.opening_file;
  if (std::string line = describe_links_out(plan.source.path, store.catalog()); !line.empty()) {
    options.fallbacks.push_back(std::move(line));
  }
  const cache::SharedTierOptions& shared = plan.store.shared;
  const bool in_clear = !shared.peers.empty() && shared.certificates.empty();
  if (const std::uint64_t count = in_clear ? cache::count_kept_back(store.catalog()) : 0; count > 0) {
    options.fallbacks.push_back(
        fmt::format("{} files are not given to the peers, which talk in the clear: other users may not read them; "
                    "share them with --peer-tls",
                    count));
  }
  options.held_by_others = [] { return held_by(neighbours()); };
  if (!arguments.records.empty()) {
    HEADRACE_TRY_DO(try_records(arguments, plan, store, channel.init_answered(), options));
    return fuse::Mount::start(store, std::move(options), channel);
  }
  HEADRACE_TRY(orders, mount_orders(plan, kept, store.catalog(), channel.catalog_before_fd(), options.fallbacks));
  orders.first_epoch = arguments.first_epoch;
  options.orders = std::move(orders);
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

// Null where this node shares with nobody.
std::unique_ptr<PeerWatch> watch_peers(const MountPlan& plan, const KeptSettings& kept, cache::Store& store) {
  if (plan.store.shared.peers.empty()) return nullptr;
  std::vector<std::string> words = kept.peers();
  if (words.empty()) words = plan.peer_words;
  return std::make_unique<PeerWatch>(
      std::move(words), plan.store.shared.peers,
      [&store](const std::vector<std::string>& names) { return store.set_peers(names); });
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

// Files that are open stay readable, and the mount ends with the last of them. Those opened later are the source's.
void leave_to_source(const MountPlan& plan, StopSignal& stop) {
  io::log_info("{}: the program that it was mounted for has ended", plan.mount_point.string());
  const io::Status unmounted = fuse::unmount(plan.mount_point);
  if (unmounted) return;
  io::log_error("{}", unmounted.error().message());
  stop.request();
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
          .words = arguments.words};
}

// Runs in the process that serves. When that dies, the supervisor starts another one.
io::Status work(const MountArguments& arguments, const MountPlan& plan, KeptSettings& kept, fuse::Channel& channel,
                const ReadyCallback& ready) {
  StopSignal stop;
  cache::StoreOptions store_options = plan.store;
  store_options.catalog_fd = channel.catalog_fd();
  HEADRACE_TRY(store, open_store(store_options, stop));
  HEADRACE_TRY(mount, start_mount(arguments, plan, kept, *store, channel));
  if (const std::optional<std::uint64_t> bytes = kept.pushed_bytes()) mount->set_ram_bytes(*bytes);
  if (const std::optional<std::uint64_t> rate = kept.source_rate()) mount->set_source_rate(*rate);
  // A bucket was listed just now, object by object, and another listing costs money; a worker that shows other names
  // was started because of a comparison. One that takes over has the catalog of the one before.
  const bool is_known = plan.source.is_bucket() && !store->catalog().was_saved();
  cache::RefresherOptions refresh{.every = std::chrono::seconds(arguments.revalidate_seconds),
                                  .at_start = !is_known && !mount->has_renewed(),
                                  .on_told = [&mount] { mount->wait_until_forgotten(); },
                                  .catalog = plan.store.catalog};
  const std::unique_ptr<PeerWatch> peers = watch_peers(plan, kept, *store);
  MountService service(*store, *mount, std::move(refresh), kept, describe(arguments, plan, kept, channel),
                       describe_share(plan), peers.get());
  HEADRACE_TRY(socket, daemon_socket_of(plan.mount_point, channel.device()));
  HEADRACE_TRY(server, ControlServer::start(socket, [&](std::string_view line) { return service.answer(line); }));
  HEADRACE_TRY(links, PlaceLinks::make(socket, plan.mount_point, channel.device()));
  HEADRACE_TRY(metrics, start_metrics("--metrics", arguments.metrics, MetricsPage::kMount, [&] {
                 return std::vector<MountFigures>{{plan.mount_point.string(), service.stat()}};
               }));

  io::log_info("{} mounted at {}: {} samples", plan.source.path.string(), plan.mount_point.string(),
               store->catalog().sample_count());
  ready();
  std::optional<OwnerWatch> owner;
  if (arguments.owner >= 0) owner.emplace(arguments.owner, [&] { leave_to_source(plan, stop); });
  serve_until_stopped(*mount, stop);
  io::log_info("{} unmounted", plan.mount_point.string());
  return {};
}

// `taken`: what the program before this one handed over.
io::Status serve(const MountArguments& arguments, const MountPlan& plan, const ReadyCallback& ready,
                 const std::optional<Handover>& taken = std::nullopt) {
  hold_stop_signals();  // headrace unmount --force sends one to whom it finds alive
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
  options.channel.source_name = mounted_name(plan.source.path);
  options.channel.allow_other = arguments.allow_other;
  options.channel.over_source = plan.over_source;
  if (const auto before = find_daemon(plan.mount_point)) options.channel.served_by = before->worker;
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
  if (!taken) {
    io::Status ended = fuse::supervise(options);
    if (arguments.owner >= 0) remove_own_runtime_folder();
    return ended;
  }
  HEADRACE_TRY(channel, fuse::Channel::take_over(taken->channel));
  return fuse::go_on(options, std::move(channel), taken->stand_in);
}

// The log has each line, but whoever mounts may not look there: class labels differ from those of the whole data set.
// A daemon that is too busy to be asked is mounted all the same.
void tell_what_is_missing(const MountPlan& plan) {
  const io::Result<nlohmann::json> stat = query_daemon(plan.mount_point, "stat");
  if (!stat) return;
  for (const nlohmann::json& line : member_of(member_of(*stat, "mount"), "fallbacks")) {
    print_line(stderr, "headrace: " + line.get<std::string>());
  }
  const nlohmann::json& data_set = member_of(*stat, "data_set");
  if (const std::uint64_t count = number_of(data_set, "unreadable"); count > 0) {
    fmt::print(stderr, "headrace: {} folders or files could not be read and are left out; the log names them\n", count);
  }
  // In a folder these are sockets and devices, which nobody misses.
  if (const std::uint64_t count = number_of(data_set, "skipped"); plan.source.is_bucket() && count > 0) {
    fmt::print(stderr,
               "headrace: {} objects are left out, because no file system can show their names; the log has some of "
               "these, and an object that was copied to another name is shown\n",
               count);
  }
}

io::Result<io::LogLevel> parse_log_level(const std::string& name) {
  constexpr Choice<io::LogLevel> kLevels[] = {{"debug", io::LogLevel::kDebug},
                                              {"info", io::LogLevel::kInfo},
                                              {"warning", io::LogLevel::kWarning},
                                              {"error", io::LogLevel::kError}};
  return choose("--log-level", name, kLevels);
}

// Ends `turn` once the mount can be found. `line` is for the log, unless it is empty.
io::Status run_own_mount(const MountArguments& arguments, io::LogLevel level, MountTurn& turn,
                         const std::string& line) {
  HEADRACE_TRY(plan, make_plan(arguments));
  io::set_log_level(level);
  tell_what_is_shared(plan);
  const std::string log_name = file_name_for(plan.mount_point.filename().native(), plan.mount_point.native(), ".log");
  const DaemonBody body = [&](const ReadyCallback& ready, const CountCallback& count) {
    plan.store.on_listing = count;
    if (!line.empty()) io::log_info("{}", line);
    if (arguments.foreground) {
      return serve(arguments, plan, [&] {
        turn.end();
        ready();
      });
    }
    turn.leave();
    return serve(arguments, plan, ready);
  };
  if (arguments.foreground) return run_in_foreground(body);
  {
    CountProgress progress(stderr, "listing " + plan.source.path.string(), "objects");
    const auto show = [&](std::uint64_t count) { progress.update(count); };
    HEADRACE_TRY_DO(run_detached({.log_name = log_name, .on_count = show}, body));
  }
  tell_what_is_missing(plan);
  return {};
}

}  // namespace

// The terminal was left by the program before this one; stderr is a socket where it is the journal.
io::Status run_take_over(const TakeOverArguments& arguments) {
  io::UniqueFd descriptor(static_cast<int>(arguments.descriptor));
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

io::Status check_handover(const Handover& handover) {
  Command scratch("", "mount", "");
  MountArguments arguments;
  add_mount_options(scratch, arguments);
  HEADRACE_TRY_DO(parse_options(scratch, handover.words));
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

io::Status run_mount(const MountArguments& arguments) {
  HEADRACE_TRY(level, parse_log_level(arguments.log_level));
  HEADRACE_TRY_DO(check_metrics_address("--metrics", arguments.metrics));
  HEADRACE_TRY(asked, make_plan(arguments));
  HEADRACE_TRY(turn, MountTurn::take(asked.source.path));
  const std::vector<Neighbour> all = neighbours();
  HEADRACE_TRY(is_shown, arguments.owner >= 0 ? false : show_by_neighbour(arguments, asked, all));
  if (is_shown) {
    turn.end();  // others are not to wait for the comparison
    bring_up_to_date(asked.mount_point);
    return {};
  }
  MountArguments own = arguments;
  const std::string line = take_share_of_memory(own, all);
  return run_own_mount(own, level, turn, line);
}

}  // namespace headrace::cli
