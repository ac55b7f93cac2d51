// SPDX-License-Identifier: Apache-2.0
// Finds out which samples a warm wants, and predicts what it will bring.
//
//   auto wanted = find_wanted({.order = "torch-distributed:seed=0,replicas=8", .epochs = 3}, store.catalog());
//   const Forecast forecast = forecast_disk(*wanted, store, 200ULL << 30);
//   print(forecast.to_fetch, forecast.hit_ratio);
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "headrace/cache/record_set.h"
#include "headrace/cache/store.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/show/progress.h"

namespace headrace::cli {

// A user warms what the next few epochs read. More epochs would keep a daemon busy with computing orders.
inline constexpr std::uint64_t kWarmEpochsMax = 100;

struct WantedOptions {
  std::string order;  // empty: every sample in catalog order
  std::uint64_t first_epoch = 0;
  std::uint64_t epochs = 1;  // at most kWarmEpochsMax
  ListFiles lists = ListFiles::kAny;
  std::shared_ptr<const cache::RecordSet> records = nullptr;  // the order is over these; the packs are wanted
};

struct Wanted {
  std::vector<cache::EntryId> entries;  // each once, in the order of their first reads
  std::vector<std::uint32_t> reads;     // how often the epochs read each of them
};

// Errors: kInvalidArgument (a spec that makes no sense, no or too many epochs, an epoch that the order does not have),
// kNotFound (an order file, or a path in it).
[[nodiscard]] io::Result<Wanted> find_wanted(const WantedOptions& options, const cache::Catalog& catalog);

struct Forecast {
  Amount wanted;
  Amount held;               // of the wanted samples, before the warm
  Amount to_fetch;           // of the others, those that there is room for
  std::uint64_t room_bytes;  // what the tiers may hold together
  double hit_ratio;          // part of the epochs' reads that these tiers will serve
};

// Only those of them that one peer is to hold for the nodes that share.
struct PeerPart {
  std::string data_set;  // the source's canonical path, or its URL
  std::vector<std::string> peers;
  std::uint64_t bytes_per_peer = 0;
  std::string peer;  // HOST:PORT
};
// Errors: kInvalidArgument (no such peer, or a list that makes no sense).
[[nodiscard]] io::Result<std::vector<cache::EntryId>> only_of_peer(const Wanted& wanted, const PeerPart& part,
                                                                   const cache::Catalog& catalog);

// What the disk tiers of a store hold together, and what they may hold.
struct DiskTiers {
  std::uint64_t used_bytes = 0;
  std::uint64_t budget_bytes = 0;
};
[[nodiscard]] DiskTiers disk_tiers_of(const cache::Store& store);

// Predicts for all disk tiers together. `room_bytes` is the sum of their budgets. A sample that is held stays.
[[nodiscard]] Forecast forecast_disk(const Wanted& wanted, const cache::Store& store, std::uint64_t room_bytes);
// Predicts for a page cache that holds `held` of a data set whose samples are read once per epoch.
[[nodiscard]] Forecast forecast_ram(const Amount& data_set, const Amount& held, std::uint64_t budget_bytes);

[[nodiscard]] nlohmann::json to_json(const Forecast& forecast);
// Reads what to_json() made. Members that are missing count as 0.
[[nodiscard]] Forecast forecast_from_json(const nlohmann::json& object);
// "40 samples, 380 KiB wanted; 10, 95 KiB held; room for 64 MiB; 30, 285 KiB to fetch; predicted hit ratio 1.00"
[[nodiscard]] std::string summarise(const Forecast& forecast);

}  // namespace headrace::cli
