// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/warm/warm_plan.h"

#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cache/record_order.h"
#include "headrace/cache/shared_forecast.h"
#include "headrace/cli/setup/data_set.h"
#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using nlohmann::json;

Wanted whole_catalog(const cache::Catalog& catalog) {
  Wanted wanted;
  for (cache::SampleIndex sample = 0; sample < catalog.sample_count(); ++sample) {
    wanted.entries.push_back(catalog.sample_entry(sample));
  }
  wanted.reads.assign(wanted.entries.size(), 1);
  return wanted;
}

// Counts the reads of each sample: an order may repeat samples within an epoch and across epochs.
io::Result<Wanted> draw(const cache::Order& order, const WantedOptions& options, const cache::Catalog& catalog) {
  std::vector<std::uint32_t> reads_of(catalog.sample_count());
  std::vector<cache::SampleIndex> first_reads;
  for (std::uint64_t epoch = options.first_epoch; epoch < options.first_epoch + options.epochs; ++epoch) {
    HEADRACE_TRY(samples, order.epoch(epoch));
    for (const cache::SampleIndex sample : samples) {
      if (reads_of[sample]++ == 0) first_reads.push_back(sample);
    }
  }
  Wanted wanted;
  for (const cache::SampleIndex sample : first_reads) {
    wanted.entries.push_back(catalog.sample_entry(sample));
    wanted.reads.push_back(reads_of[sample]);
  }
  return wanted;
}

// The packs, each once, in the order of the first read of one of its records.
io::Result<Wanted> draw_packs(const WantedOptions& options) {
  const std::string order_spec = options.order.empty() ? "sequential" : options.order;
  HEADRACE_TRY(order, cache::make_record_order(order_spec, options.records, options.lists == ListFiles::kRegular));
  std::vector<std::uint32_t> reads_of(options.records->packs().size());
  std::vector<std::size_t> first_reads;
  for (std::uint64_t epoch = options.first_epoch; epoch < options.first_epoch + options.epochs; ++epoch) {
    HEADRACE_TRY(records, order->epoch(epoch));
    for (const cache::SampleIndex record : records) {
      const std::size_t pack = options.records->place(record).pack;
      if (reads_of[pack]++ == 0) first_reads.push_back(pack);
    }
  }
  Wanted wanted;
  for (const std::size_t pack : first_reads) {
    wanted.entries.push_back(options.records->packs()[pack].entry);
    wanted.reads.push_back(reads_of[pack]);
  }
  return wanted;
}

void add(Amount& amount, std::uint64_t bytes) {
  ++amount.samples;
  amount.bytes += bytes;
}

json to_json(const Amount& amount) {
  return {{"samples", amount.samples}, {"bytes", amount.bytes}};
}

Amount amount_from_json(const json& object, const char* name) {
  const json& amount = member_of(object, name);
  return {.samples = number_of(amount, "samples"), .bytes = number_of(amount, "bytes")};
}

}  // namespace

io::Result<Wanted> find_wanted(const WantedOptions& options, const cache::Catalog& catalog) {
  if (options.epochs == 0 || options.epochs > kWarmEpochsMax) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("--epochs {}: choose 1 to {}", options.epochs, kWarmEpochsMax));
  }
  if (options.records) return draw_packs(options);
  if (options.order.empty()) return whole_catalog(catalog);
  HEADRACE_TRY(order, open_order(options.order, catalog, options.lists));
  return draw(*order, options, catalog);
}

io::Result<std::vector<cache::EntryId>> only_of_peer(const Wanted& wanted, const PeerPart& part,
                                                     const cache::Catalog& catalog) {
  if (part.peer.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "--mine: no peer has an address of this machine, so nothing is its");
  }
  HEADRACE_TRY(mine, cache::entries_of_peer(catalog, part.data_set, part.peers, part.bytes_per_peer, part.peer));
  std::vector<cache::EntryId> entries;
  for (const cache::EntryId entry : wanted.entries) {
    if (std::ranges::binary_search(mine, entry)) entries.push_back(entry);
  }
  return entries;
}

DiskTiers disk_tiers_of(const cache::Store& store) {
  DiskTiers all;
  for (const cache::TierStats& tier : store.stats().tiers) {
    if (tier.kind != cache::TierKind::kSsd && tier.kind != cache::TierKind::kHdd) continue;
    all.used_bytes += tier.used_bytes;
    all.budget_bytes += tier.budget_bytes;
  }
  return all;
}

Forecast forecast_disk(const Wanted& wanted, const cache::Store& store, std::uint64_t room_bytes) {
  const std::uint64_t free_bytes = room_bytes - std::min(room_bytes, disk_tiers_of(store).used_bytes);
  Forecast forecast{};
  forecast.room_bytes = room_bytes;
  std::uint64_t reads = 0;
  std::uint64_t hits = 0;
  for (std::size_t i = 0; i < wanted.entries.size(); ++i) {
    const std::uint64_t bytes = store.catalog().size_bytes(wanted.entries[i]);
    const bool held = store.is_on_disk(wanted.entries[i]);
    const bool fits = forecast.to_fetch.bytes + bytes <= free_bytes;
    add(forecast.wanted, bytes);
    if (held) add(forecast.held, bytes);
    if (!held && fits) add(forecast.to_fetch, bytes);
    reads += wanted.reads[i];
    if (held || fits) hits += wanted.reads[i];
  }
  forecast.hit_ratio = reads == 0 ? 1 : static_cast<double>(hits) / static_cast<double>(reads);
  return forecast;
}

Forecast forecast_ram(const Amount& data_set, const Amount& held, std::uint64_t budget_bytes) {
  const std::uint64_t holds_bytes = std::min(data_set.bytes, budget_bytes);
  const double part = data_set.bytes == 0 ? 1 : static_cast<double>(holds_bytes) / static_cast<double>(data_set.bytes);
  const auto holds_samples = static_cast<std::uint64_t>(part * static_cast<double>(data_set.samples));
  return {.wanted = data_set,
          .held = held,
          .to_fetch = {.samples = holds_samples - std::min(holds_samples, held.samples),
                       .bytes = holds_bytes - std::min(holds_bytes, held.bytes)},
          .room_bytes = budget_bytes,
          .hit_ratio = part};
}

json to_json(const Forecast& forecast) {
  return {{"wanted", to_json(forecast.wanted)},
          {"held", to_json(forecast.held)},
          {"to_fetch", to_json(forecast.to_fetch)},
          {"room_bytes", forecast.room_bytes},
          {"hit_ratio", forecast.hit_ratio}};
}

Forecast forecast_from_json(const json& object) {
  return {.wanted = amount_from_json(object, "wanted"),
          .held = amount_from_json(object, "held"),
          .to_fetch = amount_from_json(object, "to_fetch"),
          .room_bytes = number_of(object, "room_bytes"),
          .hit_ratio = real_of(object, "hit_ratio")};
}

std::string summarise(const Forecast& forecast) {
  return fmt::format("{} samples, {} wanted; {} ({}) held; room for {}; {} ({}) to fetch; predicted hit ratio {:.2f}",
                     forecast.wanted.samples, format_size(forecast.wanted.bytes), forecast.held.samples,
                     format_size(forecast.held.bytes), format_size(forecast.room_bytes), forecast.to_fetch.samples,
                     format_size(forecast.to_fetch.bytes), forecast.hit_ratio);
}

}  // namespace headrace::cli
