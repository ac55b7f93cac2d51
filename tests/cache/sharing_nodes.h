// SPDX-License-Identifier: Apache-2.0
// A data set, and nodes that share what they read of it, all in one process.
//
//   const Cluster cluster;
//   const auto first = cluster.node({peer.name()});
//   cluster.check_all(*first);
//   wait_for_puts(*first, cluster.contents.size());
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/store.h"

#include "support/temp_dir.h"

namespace headrace::test {

struct Cluster {
  explicit Cluster(std::size_t files = 20, std::size_t bytes = 20'000) {
    for (std::size_t i = 0; i < files; ++i) {
      const std::string path = "c/" + std::to_string(i) + ".jpg";
      contents[path] = as_text(pattern_bytes(bytes + i, i));
      dir.write(path, contents[path]);
    }
  }
  // `own`: which of the peers the node is; it compares its list with the others then.
  std::unique_ptr<cache::Store> node(const std::vector<std::string>& peers,
                                     const std::optional<std::string>& own = std::nullopt) const {
    auto store =
        cache::Store::open({.source = dir.path(),
                            .ram_bytes = 64 << 20,
                            .shared = {.peers = peers, .bytes_per_peer = std::uint64_t{1} << 30, .own_peer = own}});
    REQUIRE(store.has_value());
    return std::move(*store);
  }
  void check_all(cache::Store& store) const {
    for (const auto& [path, content] : contents) {
      const auto view = store.read(*store.catalog().find(path));
      REQUIRE(view.has_value());
      CHECK(as_text({view->bytes().begin(), view->bytes().end()}) == content);
    }
  }
  TempDir dir;
  std::map<std::string, std::string> contents;
};

inline cache::TierStats stats_of(const cache::Store& store, cache::TierKind kind) {
  for (const cache::TierStats& tier : store.stats().tiers) {
    if (tier.kind == kind) return tier;
  }
  FAIL("no such tier");
  return {};
}

// Puts are behind the reader's back.
inline void wait_for_puts(const cache::Store& store, std::uint64_t count) {
  for (int i = 0; i < 3000 && stats_of(store, cache::TierKind::kShared).writes < count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE(stats_of(store, cache::TierKind::kShared).writes == count);
}

}  // namespace headrace::test
