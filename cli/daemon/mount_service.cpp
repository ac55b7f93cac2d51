// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/mount_service.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/cache/sample_sizes.h"
#include "headrace/cli/daemon/neighbours.h"
#include "headrace/cli/daemon/protocol.h"
#include "headrace/cli/daemon/stats_json.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/setup/peer_list.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/setup/sets.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/version.h"
#include "headrace/io/log.h"
#include "headrace/io/memory_limit.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using nlohmann::json;

// Written as \u0000 each they are still within kReplyBytesMax.
constexpr std::size_t kPathBytesOfReply = std::size_t{256} << 10;

WantedOptions wanted_options(const json& arguments) {
  return {.order = text_of(arguments, "order"),
          .first_epoch = number_of(arguments, "epoch"),
          .epochs = std::max<std::uint64_t>(1, number_of(arguments, "epochs")),
          .lists = ListFiles::kRegular};
}

// Empty where there is none.
io::Result<std::vector<std::string>> texts_of(const json& arguments, const char* name) {
  std::vector<std::string> texts;
  const auto listed = arguments.find(name);
  if (listed == arguments.end()) return texts;
  const bool are_texts =
      listed->is_array() && std::ranges::all_of(*listed, [](const json& e) { return e.is_string(); });
  if (!are_texts) return make_error(ErrorCode::kInvalidArgument, fmt::format("{} is a list of texts", name));
  for (const json& each : *listed) texts.push_back(each.get<std::string>());
  return texts;
}

// "specs": one, or one for each folder; "spec": one, as earlier versions ask.
io::Result<std::vector<std::string>> specs_of(const json& arguments) {
  HEADRACE_TRY(specs, texts_of(arguments, "specs"));
  if (const std::string spec = text_of(arguments, "spec"); !spec.empty()) specs.insert(specs.begin(), spec);
  return specs;
}

io::Status check_orders(const std::vector<std::string>& specs, const cache::Catalog& catalog) {
  return open_orders(specs, catalog, ListFiles::kRegular).map([](const auto&) {});
}

cache::RefresherOptions with_listener(cache::RefresherOptions options,
                                      std::function<io::Status(const cache::CatalogChanges&)> on_other_names) {
  options.on_other_names = std::move(on_other_names);
  return options;
}

// nullopt: it is not named, and stays.
io::Result<std::optional<std::uint64_t>> setting_of(const json& arguments, const char* name) {
  if (!arguments.contains(name)) return std::nullopt;
  const json& given = arguments[name];
  if (!given.is_number_unsigned()) return make_error(ErrorCode::kInvalidArgument, fmt::format("{} is a number", name));
  return given.get<std::uint64_t>();
}

}  // namespace

MountService::MountService(cache::Store& store, fuse::Mount& mount, cache::RefresherOptions refresh, KeptSettings& kept,
                           Handover handover, json share, PeerWatch* peers)
    : store_(store),
      mount_(mount),
      kept_(kept),
      sample_chunks_(cache::sample_chunks(store.catalog())),
      handover_(std::move(handover)),
      supervisor_(::getppid()),
      share_(std::move(share)),
      peers_(peers),
      telling_(store.catalog().sample_count()),
      refresher_(store, with_listener(std::move(refresh), [this](const cache::CatalogChanges& changes) {
                   return show_other_names(changes);
                 })) {}

std::string MountService::answer(std::string_view request) {
  return answer_request(
      request, [this](const std::string& command, const json& arguments) { return handle(command, arguments); });
}

io::Result<json> MountService::handle(const std::string& command, const json& arguments) {
  if (command == "version") {
    std::error_code failure;
    return json{{"version", kVersion},
                {"protocol", kProtocolVersion},
                {"pid", ::getpid()},
                {"supervisor_pid", supervisor_},
                {"program", std::filesystem::read_symlink("/proc/self/exe", failure).string()}};
  }
  if (command == "stat") return stat();
  if (command == "warm") return warm(arguments);
  if (command == "warm-forecast") return warm_forecast(arguments);
  if (command == "warm-state") return warm_state();
  if (command == "warm-stop") {
    if (job_) job_->cancel();
    return json::object();
  }
  if (command == "refresh") {
    refresher_.request();
    return refresh_state();
  }
  if (command == "refresh-state") return refresh_state();
  if (command == "set") return set(arguments);
  if (command == "pin") return pin(arguments);
  if (command == "pinned") return pinned(arguments);
  if (command == "evict") return evict(arguments);
  if (command == "handover") return to_json(handover_);
  if (command == "neighbour") return neighbour();
  if (command == "upgrade") return upgrade(arguments);
  if (command == "order") return order(arguments);
  if (command == "order-tell") return tell_order(arguments);
  if (command == "numbering") return numbering(arguments);
  if (command == "opens") return opens(arguments);
  return make_error(ErrorCode::kInvalidArgument, "unknown command '" + command + "'");
}

json MountService::refresh_state() const {
  const cache::Refresher::State state = refresher_.state();
  const fuse::MountStats stats = mount_.stats();
  const fuse::RenewedNames& renewed = stats.renewed;
  return {{"running", state.running},
          {"rounds", state.rounds},
          {"changed", state.changed},
          {"vanished", state.vanished},
          {"appeared", state.appeared},
          {"why_not_shown", state.why_not_shown},
          {"failure", state.failure},
          {"failures", state.failures},
          {"renewals", stats.renewals},
          {"renewed", {{"changed", renewed.changed}, {"vanished", renewed.vanished}, {"appeared", renewed.appeared}}}};
}

// By the refresher's thread. What runs in this process ends with it; a warm would have to begin again.
io::Status MountService::show_other_names(const cache::CatalogChanges& changes) {
  if (is_warming_) return make_error(ErrorCode::kBusy, "the mount is being warmed; they are shown after that");
  // A source that is away looks like an empty folder where it was mounted.
  if (changes.next->sample_count() == 0)
    return make_error(ErrorCode::kNotFound, "there is no file left; is the source away?");
  return mount_.renew(
      *changes.next,
      {.changed = changes.changed.size(), .vanished = changes.vanished.size(), .appeared = changes.appeared});
}

json MountService::stat() const {
  const cache::Catalog& catalog = store_.catalog();
  json all = {{"version", kVersion},
              {"pid", ::getpid()},
              {"supervisor_pid", ::getppid()},
              {"mount_point", handover_.mount_point.string()},
              {"source", handover_.source.string()},
              {"uptime_seconds", seconds_since(started_)},
              {"data_set",
               {{"entries", catalog.entry_count()},
                {"samples", catalog.sample_count()},
                {"bytes", catalog.sample_bytes()},
                {"chunks", sample_chunks_},
                {"classes", catalog.class_count()},
                {"skipped", catalog.skipped()},
                {"unreadable", catalog.unreadable()}}},
              {"refresh", refresh_state()},
              {"mount", to_json(mount_.stats())},
              {"store", to_json(store_.stats())}};
  if (share_.is_null()) return all;
  const PeerWatch::State named = peers_->state();
  all["share"] = share_;
  all["share"]["named"] = named.words;
  all["share"]["list_failure"] = named.failure;
  return all;
}

io::Result<json> MountService::warm_state() const {
  if (job_) return job_->state();
  return make_error(ErrorCode::kNotFound, fmt::format("the process that warmed {} has given way to another one; call "
                                                      "again to go on",
                                                      handover_.mount_point.string()));
}

io::Result<json> MountService::warm(const json& arguments) {
  if (job_ && !job_->finished()) {
    return make_error(ErrorCode::kBusy,
                      handover_.mount_point.string() + " is being warmed already; wait until that ends");
  }
  BackgroundWarmOptions options;
  options.ram = flag_of(arguments, "ram");
  options.warmer.rate_bytes_per_second = number_of(arguments, "rate_bytes_per_second");
  options.warmer.to_peers = flag_of(arguments, "mine");
  if (flag_of(arguments, "disk") || options.warmer.to_peers) {
    HEADRACE_TRY(wanted, find_wanted(wanted_options(arguments), store_.catalog()));
    if (options.warmer.to_peers) {
      HEADRACE_TRY(mine, own_part(wanted));
      wanted.entries = std::move(mine);
    }
    options.entries = std::move(wanted.entries);
  }
  options.on_finished = [this] { is_warming_ = false; };
  is_warming_ = true;
  job_ = std::make_unique<BackgroundWarm>(store_, mount_, std::move(options));
  return json::object();
}

io::Result<std::vector<cache::EntryId>> MountService::own_part(const Wanted& wanted) const {
  if (share_.is_null()) {
    return make_error(ErrorCode::kInvalidArgument, "--mine: this mount shares with nobody; see headrace mount --peers");
  }
  PeerPart part{.data_set = handover_.source.string(),
                .peers = {},
                .bytes_per_peer = number_of(share_, "bytes"),
                .peer = text_of(share_, "peer")};
  for (const cache::PeerStats& peer : store_.stats().peers) part.peers.push_back(peer.name);
  return only_of_peer(wanted, part, store_.catalog());
}

io::Result<json> MountService::warm_forecast(const json& arguments) const {
  json result = json::object();
  if (flag_of(arguments, "disk")) {
    HEADRACE_TRY(wanted, find_wanted(wanted_options(arguments), store_.catalog()));
    result["disk"] = to_json(forecast_disk(wanted, store_, disk_tiers_of(store_).budget_bytes));
  }
  if (flag_of(arguments, "ram")) {
    const cache::Catalog& catalog = store_.catalog();
    const fuse::MountStats stats = mount_.stats();
    result["ram"] =
        to_json(forecast_ram({.samples = catalog.sample_count(), .bytes = catalog.sample_bytes()},
                             {.samples = stats.held_samples, .bytes = stats.held_bytes}, stats.budget_bytes));
  }
  return result;
}

// What is on its way keeps its share: the store's buffers are in use all the time.
io::Status MountService::check_ram(std::uint64_t ram) const {
  constexpr std::uint64_t kPushedLeast = std::uint64_t{3} << 20;  // as a mount of 20 MiB has
  // Who asks may have more memory than this process: it looked where it runs, such as outside of a container.
  if (const std::uint64_t limit = io::memory_limit_bytes(); ram > limit) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("ram={}: where this mount runs there are {} of memory; take less", format_size(ram),
                                  format_size(limit)));
  }
  const std::uint64_t staging = mount_.stats().staging_bytes;
  if (ram == 0 || ram >= staging + kPushedLeast) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("ram={}: this mount was given {} for what is on its way, and needs 3 MiB beside; take "
                                "more, or 0 to push nothing",
                                format_size(ram), format_size(staging)));
}

void MountService::set_ram(std::uint64_t ram) {
  const std::uint64_t pushed = ram - std::min(ram, mount_.stats().staging_bytes);
  kept_.keep_pushed_bytes(pushed);
  mount_.set_ram_bytes(pushed);
  io::log_info("mount {}: {} MiB of memory from now on", handover_.mount_point.string(), ram >> 20);
}

io::Status MountService::set_peers(const std::vector<std::string>& words) {
  if (peers_ == nullptr) {
    return make_error(ErrorCode::kInvalidArgument,
                      "peers=: this mount shares with nobody; who is to share is mounted with --peers and --share");
  }
  if (const auto file = peer_file_of(words); !file.empty() && is_inside(file, handover_.mount_point)) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("peers=: the list {} lies inside the mount, which would wait for itself", file.string()));
  }
  io::Status changed = peers_->change(words);
  if (!changed) changed.error().context.insert(0, "peers=: ");
  if (changed && !kept_.keep_peers(words)) {
    io::log_warning("mount {}: the list of peers is too long to outlive this process", handover_.mount_point.string());
  }
  return changed;
}

// All is checked before the first of it is done.
io::Result<json> MountService::set(const json& arguments) {
  HEADRACE_TRY(ram, setting_of(arguments, "ram_bytes"));
  HEADRACE_TRY(rate, setting_of(arguments, "source_rate"));
  HEADRACE_TRY(specs, specs_of(arguments));
  HEADRACE_TRY(peers, texts_of(arguments, "peers"));
  if (!ram && !rate && specs.empty() && peers.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "set needs ram_bytes, source_rate, specs or peers");
  }
  if (ram) HEADRACE_TRY_DO(check_ram(*ram));
  const bool names_order = !specs.empty() && specs.front() != kLearnedOrder;
  if (!specs.empty() && !names_order) HEADRACE_TRY_DO(mount_.check_learns());
  if (names_order) HEADRACE_TRY_DO(check_takes_orders());
  if (names_order && !peers.empty()) HEADRACE_TRY_DO(check_orders(specs, store_.catalog()));
  if (!peers.empty()) HEADRACE_TRY_DO(set_peers(peers));
  if (!specs.empty()) HEADRACE_TRY_DO(order(arguments).map([](const json&) {}));
  if (ram) set_ram(*ram);
  if (rate) {
    kept_.keep_source_rate(*rate);
    mount_.set_source_rate(*rate);
    io::log_info("mount {}: {} bytes a second of the source are read ahead, 0 is all", handover_.mount_point.string(),
                 *rate);
  }
  return json::object();
}

// Each once. A line that names no sample is an error, with its number.
io::Result<std::vector<cache::SampleIndex>> MountService::listed(const json& arguments) const {
  const std::string list = text_of(arguments, "list");
  if (list.empty()) return make_error(ErrorCode::kInvalidArgument, "list is the path of a file");
  auto order = open_order("file:" + list, store_.catalog(), ListFiles::kRegular);
  if (!order) {
    constexpr std::string_view kOrderFile = "order file";
    io::Error error = std::move(order).error();
    if (const std::size_t at = error.context.find(kOrderFile); at != std::string::npos) {
      error.context.replace(at, kOrderFile.size(), "list");  // who gave it thinks of no order
    }
    return tl::unexpected(std::move(error));
  }
  HEADRACE_TRY(samples, (*order)->epoch(0));
  std::ranges::sort(samples);
  samples.erase(std::unique(samples.begin(), samples.end()), samples.end());
  if (samples.empty()) return make_error(ErrorCode::kInvalidArgument, "list " + list + ": names no samples");
  return samples;
}

io::Result<json> MountService::pin(const json& arguments) {
  HEADRACE_TRY(samples, listed(arguments));
  HEADRACE_TRY(outcome, mount_.pin(samples));
  if (!outcome.is_pinned) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("the list takes {} of memory{}, and {} may be pinned of what this mount has for samples; take "
                    "fewer, evict some that are pinned, or give the mount more: headrace set {} ram=SIZE",
                    format_size(outcome.asked_bytes),
                    outcome.pinned_bytes > 0
                        ? fmt::format(" beside {} that are pinned", format_size(outcome.pinned_bytes))
                        : "",
                    format_size(outcome.pinnable_bytes), handover_.mount_point.string()));
  }
  io::log_info("mount {}: {} samples of a list are pinned", handover_.mount_point.string(), samples.size());
  return json{{"samples", samples.size()}, {"bytes", outcome.asked_bytes}};
}

io::Result<json> MountService::evict(const json& arguments) {
  HEADRACE_TRY(samples, listed(arguments));
  HEADRACE_TRY_DO(mount_.evict(samples));
  io::log_info("mount {}: {} samples of a list are evicted", handover_.mount_point.string(), samples.size());
  return json{{"samples", samples.size()}};
}

json MountService::pinned(const json& arguments) const {
  constexpr std::size_t kPathsOfReply = 4096;  // a daemon that is asked looks at so many at a time
  const cache::Catalog& catalog = store_.catalog();
  json reply = {{"paths", json::array()}};
  const auto first = std::min<std::uint64_t>(number_of(arguments, "first"), catalog.sample_count());
  const std::vector<cache::SampleIndex> samples = mount_.pinned(static_cast<cache::SampleIndex>(first), kPathsOfReply);
  std::size_t bytes = 0;
  for (const cache::SampleIndex sample : samples) {
    if (bytes >= kPathBytesOfReply) {
      reply["next"] = sample;
      return reply;
    }
    reply["paths"].push_back(catalog.path(catalog.sample_entry(sample)));
    bytes += reply["paths"].back().get_ref<const std::string&>().size();
  }
  if (samples.size() == kPathsOfReply) reply["next"] = samples.back() + 1;
  return reply;
}

json MountService::neighbour() const {
  const fuse::MountStats stats = mount_.stats();
  Neighbour own{.place = {},
                .mount_point = handover_.mount_point,
                .source_name = {},
                .words = handover_.words,
                .working_folder = handover_.working_folder,
                .budget_bytes = stats.ram_bytes + stats.staging_bytes,
                .held_bytes = stats.held_bytes};
  struct stat source {};
  if (handover_.source_fd >= 0 && ::fstat(handover_.source_fd, &source) == 0) {
    own.source_device = source.st_dev;
    own.source_inode = source.st_ino;
  }
  return to_json(own);
}

// The supervisor ends this process then. Who asks has looked whether the program can take over, but elsewhere: with
// another environment, or in another container. Once the supervisor has become a program that fails, the mount ends.
io::Result<json> MountService::upgrade(const json& arguments) {
  const std::filesystem::path program = text_of(arguments, "program");
  if (!program.is_absolute() || ::access(program.c_str(), X_OK) != 0 || !kept_.keep_program(program)) {
    return make_error(ErrorCode::kUnsupported, fmt::format("where this mount runs there is no program {}; run headrace "
                                                           "upgrade in the same container",
                                                           program.string()));
  }
  if (::getppid() != supervisor_) return make_error(ErrorCode::kBusy, "the mount is ending");
  HEADRACE_TRY_DO(try_program(program, handover_));
  io::log_info("mount {}: {} is to go on", handover_.mount_point.string(), program.string());
  if (::kill(supervisor_, SIGUSR1) != 0) return io::system_error(errno, "tell the supervisor");
  return json::object();
}

io::Status MountService::check_takes_orders() const {
  if (!mount_.reads_records()) return {};
  return make_error(ErrorCode::kUnsupported,
                    "a mount with --records goes along the order that it was mounted with; mount it anew");
}

io::Result<json> MountService::order(const json& arguments) {
  HEADRACE_TRY(specs, specs_of(arguments));
  if (specs.size() == 1 && specs.front() == kLearnedOrder) {
    HEADRACE_TRY_DO(mount_.learn_order());
  } else if (!specs.empty()) {
    HEADRACE_TRY_DO(check_takes_orders());
    HEADRACE_TRY(orders, open_orders(specs, store_.catalog(), ListFiles::kRegular));
    mount_.set_order(std::move(orders.front()), number_of(arguments, "epoch"));
  }
  if (!specs.empty() && !kept_.keep_orders(specs)) {
    io::log_warning("mount {}: the order is too long to outlive this process", handover_.mount_point.string());
  }
  const fuse::MountStats stats = mount_.stats();
  return json{{"order", stats.order},
              {"set", stats.order_set},
              {"given_up", stats.order_given_up},
              {"found_by", stats.order_found_by},
              {"confidence_bits", stats.order_confidence_bits},
              {"epoch", stats.epoch},
              {"position", stats.position}};
}

io::Result<json> MountService::tell_order(const json& arguments) {
  HEADRACE_TRY_DO(check_takes_orders());
  const auto told = telling_.take(arguments);
  if (!told) return tl::unexpected(told.error());
  if (*told) mount_.set_order((*told)->order, (*told)->epoch);
  return json{{"followed", told->has_value()}};
}

// As many as fit a reply; `next`: where the rest begins.
json MountService::opens(const json& arguments) const {
  const cache::Catalog& catalog = store_.catalog();
  const fuse::Mount::Opens opens = mount_.opens(number_of(arguments, "first"));
  json paths = json::array();
  std::size_t bytes = 0;
  for (const cache::SampleIndex sample : opens.samples) {
    if (bytes >= kPathBytesOfReply) break;
    paths.push_back(catalog.path(catalog.sample_entry(sample)));
    bytes += paths.back().get_ref<const std::string&>().size();
  }
  return {{"next", opens.first + paths.size()}, {"paths", std::move(paths)}};
}

json MountService::numbering(const json& arguments) const {
  const cache::Catalog& catalog = store_.catalog();
  json paths = json::array();
  std::size_t bytes = 0;
  for (std::uint64_t i = number_of(arguments, "first"); i < catalog.sample_count() && bytes < kPathBytesOfReply; ++i) {
    paths.push_back(catalog.path(catalog.sample_entry(static_cast<cache::SampleIndex>(i))));
    bytes += paths.back().get_ref<const std::string&>().size();
  }
  return {{"total", catalog.sample_count()}, {"paths", std::move(paths)}};
}

}  // namespace headrace::cli
