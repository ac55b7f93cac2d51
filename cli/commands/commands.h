// SPDX-License-Identifier: Apache-2.0
// The commands of the tool: what each is told by the command line, and the function that does it.
//
//   io::Status done = run_stat({.mount_point = "/mnt/imagenet", .json = true});
//
// Each prints its result to stdout and what is only for people (progress, warnings) to stderr; nothing else on success.
// An Error is one clear line; kInvalidArgument means that the command line itself makes no sense (exit status 2).
// Thread-safety: one command per process, on its main thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "headrace/io/result.h"

namespace headrace::cli {

inline constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

// How a data set is listed and cached: the options that mount, warm and read share.
struct CacheArguments {
  std::string ram;               // a size or a percentage of the machine's memory; empty: the command's default
  std::vector<std::string> ssd;  // PATH:SIZE, fastest first
  std::vector<std::string> hdd;
  std::string listing = "imagefolder";
  std::filesystem::path sample_list;  // file of relative paths; empty: the listing rule chooses
  std::string engine = "auto";        // auto, uring or pread
};

struct MountArguments {
  std::filesystem::path source;
  std::filesystem::path mount_point;
  CacheArguments cache;
  std::string order = "auto";  // auto: found out from the opens
  std::uint64_t first_epoch = 0;
  bool foreground = false;
  bool allow_other = false;
  bool overlay = false;
  std::uint64_t revalidate_seconds = 0;  // how often the source is compared with the catalog; 0: at the start only
  std::string log_level = "info";
  std::string metrics;  // ADDRESS:PORT or PORT of the Prometheus page; empty: none
};
[[nodiscard]] io::Status run_mount(const MountArguments& arguments);
// Everything that mount refuses before it touches anything, and nothing more.
[[nodiscard]] io::Status check_mount(const MountArguments& arguments);

struct UnmountArguments {
  std::filesystem::path mount_point;
};
[[nodiscard]] io::Status run_unmount(const UnmountArguments& arguments);

struct RefreshArguments {
  std::filesystem::path mount_point;
};
[[nodiscard]] io::Status run_refresh(const RefreshArguments& arguments);

struct StatArguments {
  std::filesystem::path mount_point;
  bool json = false;
  bool watch = false;  // until a signal comes
};
[[nodiscard]] io::Status run_stat(const StatArguments& arguments);
[[nodiscard]] io::Status run_watch(const std::filesystem::path& mount_point);

struct WarmArguments {
  std::filesystem::path target;  // a mount point or a source folder
  CacheArguments cache;
  bool ram = false;           // a mount: fill its RAM tier
  std::string order;          // empty: catalog order
  std::uint64_t seed = kAll;  // short for seed=N in `order`; kAll: none
  std::uint64_t epoch = 0;    // the first whose samples are wanted
  std::uint64_t epochs = 1;   // how many of them
  std::string list;           // file of paths or indices; "-": standard input; empty: none
  std::string rate_limit;     // bytes per second read from the source; empty: none
  bool dry_run = false;       // only say what would be fetched
  bool check = false;         // only say whether the disk tiers hold everything already
};
[[nodiscard]] io::Status run_warm(const WarmArguments& arguments);

struct ReadArguments {
  std::filesystem::path source;
  CacheArguments cache;
  std::string order = "sequential";
  std::uint64_t epochs = 1;
  std::uint64_t first_epoch = 0;
  bool decode = false;
  bool profile = false;  // with decode: print where the time went
  bool checksum = false;
  bool json = false;
};
[[nodiscard]] io::Status run_read(const ReadArguments& arguments);

struct OrderArguments {
  std::filesystem::path source;
  CacheArguments cache;  // only how it is listed
  std::string order;
  std::uint64_t epoch = 0;
  std::uint64_t count = kAll;
  std::string print = "path";  // or "index"
  bool list = false;           // the kinds of orders instead
};
[[nodiscard]] io::Status run_order(const OrderArguments& arguments);

struct OrderShowArguments {
  std::filesystem::path mount_point;
};
[[nodiscard]] io::Status run_order_show(const OrderShowArguments& arguments);

struct OrderSetArguments {
  std::filesystem::path mount_point;
  std::string order;
  std::uint64_t epoch = 0;
};
[[nodiscard]] io::Status run_order_set(const OrderSetArguments& arguments);

struct SynthArguments {
  std::filesystem::path directory;
  std::uint32_t files = 4000;
  std::uint32_t classes = 100;
  std::uint64_t seed = 1;
  std::filesystem::path from_folder;
};
[[nodiscard]] io::Status run_synth(const SynthArguments& arguments);

struct SimulateArguments {
  std::filesystem::path source;
  CacheArguments cache;  // only how it is listed
  std::string order = "torch-distributed:seed=0";
  std::vector<std::string> caches = {"25%", "50%", "75%"};  // sizes, or parts of the data set
  std::vector<std::string> policies = {"lru", "never-evict", "min"};
  std::uint64_t epochs = 4;
  bool json = false;
};
[[nodiscard]] io::Status run_simulate(const SimulateArguments& arguments);

struct DiagnoseArguments {
  std::filesystem::path target;  // source folder or mount point
  CacheArguments cache;
  std::uint32_t seconds = 10;        // for each of: watching the loader, measuring
  std::vector<std::string> command;  // the training, run meanwhile; empty: it runs already
  bool json = false;
};
[[nodiscard]] io::Status run_diagnose(const DiagnoseArguments& arguments);

struct TierArguments {
  std::filesystem::path path;
  bool json = false;
};
[[nodiscard]] io::Status run_tier_ls(const TierArguments& arguments);    // the data sets in it
[[nodiscard]] io::Status run_tier_info(const TierArguments& arguments);  // version, segments, bytes
[[nodiscard]] io::Status run_tier_rm(const TierArguments& arguments);

struct VerifyArguments {
  std::filesystem::path path;  // a tier
  std::string rate_limit;      // bytes per second; empty: none
};
[[nodiscard]] io::Status run_verify(const VerifyArguments& arguments);

struct DoctorArguments {
  std::filesystem::path target;  // source folder or mount point; empty: the machine alone
  std::vector<std::filesystem::path> tiers;
  bool json = false;
};
[[nodiscard]] io::Status run_doctor(const DoctorArguments& arguments);

}  // namespace headrace::cli
