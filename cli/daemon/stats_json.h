// SPDX-License-Identifier: Apache-2.0
// The figures of a store and of a mount as JSON. cli/JSON.md documents the members.
// Thread-safety: any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "headrace/cache/store.h"
#include "headrace/fuse/mount.h"

namespace headrace::cli {

// Whether an element of "tiers" in a store's figures is a tier on an SSD or a hard disk.
[[nodiscard]] bool is_disk_tier(const nlohmann::json& tier);
[[nodiscard]] nlohmann::json to_json(const cache::StoreStats& stats);
[[nodiscard]] nlohmann::json to_json(const fuse::MountStats& stats);
// What doctor shows of "bucket" in a store's figures.
[[nodiscard]] cache::ObjectStoreStats bucket_stats_from_json(const nlohmann::json& stats);

}  // namespace headrace::cli
