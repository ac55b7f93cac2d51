// SPDX-License-Identifier: Apache-2.0
// Finds out what a machine offers headrace and what limits it, each with the one command that improves it.
//
//   for (const Finding& finding : examine_machine()) print(finding);
//   for (const Finding& finding : examine_folder("source", "/data/imagenet")) print(finding);
//
// Changes nothing. Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>
#include <sys/types.h>

#include "headrace/cache/object_store.h"
#include "headrace/decode/crop_indexes.h"

namespace headrace::cli {

enum class Health : std::uint8_t {
  kGood,
  kInfo,     // worth knowing
  kLimit,    // works, but slower than it could, or less of it
  kMissing,  // something does not work without it
};

struct Finding {
  std::string name;
  Health health = Health::kInfo;
  std::string text;
  std::string remedy = {};  // a command, or what to write where; empty: nothing to do
};

[[nodiscard]] std::string_view name_of(Health health);
[[nodiscard]] std::vector<Finding> examine_machine();
// Whether fusermount3 mounts for this user.
[[nodiscard]] Finding examine_fusermount(uid_t user);
// Whether crops of JPEGs can begin within the file. `version`: of libjpeg-turbo; empty: another libjpeg.
[[nodiscard]] Finding examine_crops(decode::IndexSupport support, std::string_view version);
// Looks at the file system, the device and the free space of a folder. `role` is "source" or "tier".
[[nodiscard]] std::vector<Finding> examine_folder(std::string_view role, const std::filesystem::path& folder);

// Asks the bucket for one name.
[[nodiscard]] std::vector<Finding> examine_bucket(const std::string& url, const cache::ObjectStoreOptions& options);
// By what a client of it has counted.
[[nodiscard]] std::vector<Finding> describe_bucket(const std::string& url, const cache::ObjectStoreStats& stats);

// By what a mount says of the nodes that it shares with; nothing where it shares with nobody.
[[nodiscard]] std::vector<Finding> describe_peers(const nlohmann::json& stat);

}  // namespace headrace::cli
