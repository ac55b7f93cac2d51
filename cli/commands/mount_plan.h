// SPDX-License-Identifier: Apache-2.0
// What a mount will be, by its options: everything that they alone can make wrong is found here, before anything is
// touched.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/cache/store.h"
#include "headrace/cli/commands/mount.h"
#include "headrace/cli/daemon/handover.h"
#include "headrace/cli/daemon/memcached.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/io/result.h"

namespace headrace::cli {

inline constexpr std::uint64_t kRamLeast = std::uint64_t{20} << 20;  // what is on its way, and something to push

struct MountPlan {
  Source source;
  std::filesystem::path mount_point;  // canonical
  bool over_source = false;
  std::uint64_t ram_bytes = 0;  // of what is pushed
  std::uint64_t source_rate = 0;
  cache::StoreOptions store;
  std::vector<std::string> orders;
  std::filesystem::path order_records;  // what was learned in earlier runs
  std::filesystem::path opening_file;   // what was read of large files when they were opened
  std::filesystem::path scratch;        // canonical; empty: the mount is read-only
  std::filesystem::path working_folder;
  std::vector<std::string> peer_words;  // that name who shares, by a file from the root
  MemcachedPlan memcached;
};

// Errors: kInvalidArgument, kNotFound, kSystem: one line that names the option or the path.
[[nodiscard]] io::Result<MountPlan> make_plan(const MountArguments& arguments);
// Of a mount that is handed over. Touches neither the mount, where a stand-in answers, nor the path of the source,
// which the mount may cover.
[[nodiscard]] io::Result<MountPlan> make_plan(const MountArguments& arguments, const Handover& handover);

// What mount(8) and findmnt(8) list as the source. It is not the bare path: somebody who types "umount SOURCE" means
// the file system that is mounted at the source, but umount(8) would take the words for the name of this mount.
// `source`: as Source::path.
[[nodiscard]] std::string mounted_name(const std::filesystem::path& source);

}  // namespace headrace::cli
