// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/mount_plan.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/cache/object_store.h"
#include "headrace/cli/setup/peer_list.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/setup/sets.h"
#include "headrace/cli/setup/size.h"
#include "headrace/io/memory_limit.h"
#include "headrace/io/own_folders.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using io::ErrorCode;
using io::make_error;

constexpr std::uint64_t kMiB = 1 << 20;
// A READ of any file and the largest piece that is pushed fit in side by side: 8 MiB and a page each.
constexpr std::uint64_t kStagingLeast = 17 * kMiB;

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
  HEADRACE_TRY_DO(check("list of peers", peer_file_of(plan.peer_words)));
  HEADRACE_TRY_DO(check("scratch folder", plan.scratch));
  constexpr std::string_view kFile = "file:";
  for (const std::string& order : plan.orders) {
    const std::string spec = parse_named_spec(order).spec;
    if (spec.starts_with(kFile)) HEADRACE_TRY_DO(check("list", canonical_path(spec.substr(kFile.size()))));
  }
  return {};
}

io::Status check_scratch(const MountPlan& plan) {
  if (plan.scratch.empty()) return {};
  if (::geteuid() != 0) {
    return make_error(ErrorCode::kInvalidArgument, "--scratch needs root, because it puts an overlay over the mount");
  }
  if (!is_inside(plan.scratch, plan.source.path)) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("--scratch {} lies in the source {}, to which nothing is to be written; choose a place "
                                "elsewhere",
                                plan.scratch.string(), plan.source.path.string()));
}

// What can be said before the source is listed.
io::Status check_records(const MountArguments& arguments, const MountPlan& plan) {
  if (arguments.records.empty()) return {};
  const std::string& order = plan.orders.front();
  if (plan.orders.size() > 1 || order.empty() || !parse_named_spec(order).folder.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--records: one order is over all records; give auto or one such as --order "
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
  plan.peer_words = absolute_peers(arguments.cache.peers);
  if (!arguments.scratch.empty()) {
    HEADRACE_TRY_DO(io::check_links(arguments.scratch, "scratch folder " + arguments.scratch.string()));
    plan.scratch = canonical_path(arguments.scratch);
  }
  HEADRACE_TRY_DO(check_outside(plan));
  HEADRACE_TRY_DO(check_scratch(plan));
  HEADRACE_TRY_DO(check_records(arguments, plan));
  plan.order_records = plan.store.catalog_file.parent_path() / "orders";
  plan.opening_file = plan.store.catalog_file.string() + std::string(kOpeningEnding);
  std::error_code failure;
  plan.working_folder = fs::current_path(failure);
  HEADRACE_TRY(memcached, plan_memcached(plan.store.shared, shares));
  plan.memcached = std::move(memcached);
  if (!plan.store.shared.peers.empty()) plan.store.shared.own_peer = plan.memcached.peer;
  return {};
}

}  // namespace

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

std::string mounted_name(const fs::path& source) {
  return "headrace:" + source.string();
}

}  // namespace headrace::cli
