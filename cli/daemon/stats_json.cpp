// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/stats_json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "headrace/cli/show/figures.h"
#include "headrace/cli/show/json.h"

namespace headrace::cli {

using nlohmann::json;

bool is_disk_tier(const json& tier) {
  const std::string kind = text_of(tier, "kind");
  return kind == cache::name_of(cache::TierKind::kSsd) || kind == cache::name_of(cache::TierKind::kHdd);
}

json to_json(const cache::ObjectStoreStats& stats) {
  json latencies = json::array();
  for (const cache::ObjectStoreStats::LatencyCount& latency : stats.latencies) {
    latencies.push_back({{"count", latency.count}});
    if (latency.seconds_max) latencies.back()["seconds_max"] = *latency.seconds_max;
  }
  return {{"requests", stats.requests},
          {"lists", stats.lists},
          {"good", stats.good},
          {"refused", stats.refused},
          {"broken", stats.broken},
          {"dollars", request_dollars(stats.requests - stats.lists, stats.lists)},
          {"latencies", std::move(latencies)},
          {"latency_seconds", stats.latency_seconds},
          {"endpoint", stats.endpoint},
          {"profile", stats.profile},
          {"no_sign_request", stats.no_sign_request},
          {"requester_pays", stats.requester_pays},
          {"bytes", stats.bytes},
          {"retries", stats.retries},
          {"hedges", stats.hedges},
          {"hedges_won", stats.hedges_won},
          {"throttles", stats.throttles},
          {"errors", stats.errors},
          {"stale", stats.stale},
          {"in_flight", stats.in_flight},
          {"in_flight_limit", stats.in_flight_limit},
          {"queued", stats.queued},
          {"latency_us_p50", stats.latency_p50.count()},
          {"latency_us_p95", stats.latency_p95.count()},
          {"latency_us_p99", stats.latency_p99.count()},
          {"credentials", stats.credentials},
          {"region", stats.region},
          {"clock_behind_seconds", stats.clock_behind.count()}};
}

cache::ObjectStoreStats bucket_stats_from_json(const json& stats) {
  cache::ObjectStoreStats bucket;
  bucket.requests = number_of(stats, "requests");
  bucket.good = number_of(stats, "good");
  bucket.throttles = number_of(stats, "throttles");
  bucket.in_flight_limit = static_cast<unsigned>(number_of(stats, "in_flight_limit"));
  bucket.latency_p50 = std::chrono::microseconds(number_of(stats, "latency_us_p50"));
  bucket.latency_p99 = std::chrono::microseconds(number_of(stats, "latency_us_p99"));
  bucket.credentials = text_of(stats, "credentials");
  bucket.region = text_of(stats, "region");
  const auto behind = stats.find("clock_behind_seconds");  // may be negative
  if (behind != stats.end() && behind->is_number_integer()) {
    bucket.clock_behind = std::chrono::seconds(behind->get<std::int64_t>());
  }
  return bucket;
}

json to_json(const cache::StoreStats& stats) {
  json tiers = json::array();
  for (const cache::TierStats& tier : stats.tiers) {
    tiers.push_back({{"kind", cache::name_of(tier.kind)},
                     {"path", tier.path},
                     {"budget_bytes", tier.budget_bytes},
                     {"asked_bytes", std::max(tier.asked_bytes, tier.budget_bytes)},
                     {"keep_free_bytes", tier.keep_free_bytes},
                     {"used_bytes", tier.used_bytes},
                     {"samples", tier.samples},
                     {"hits", tier.hits},
                     {"hit_bytes", tier.hit_bytes},
                     {"writes", tier.writes},
                     {"write_bytes", tier.write_bytes},
                     {"moved_bytes", tier.moved_bytes},
                     {"evictions", tier.evictions},
                     {"errors", tier.errors},
                     {"corrupt", tier.corrupt},
                     {"placement", tier.placement},
                     {"state", tier.state}});
  }
  json peers = json::array();
  for (const cache::PeerStats& peer : stats.peers) {
    peers.push_back({{"name", peer.name},
                     {"state", peer.state},
                     {"samples", peer.samples},
                     {"bytes", peer.bytes},
                     {"hits", peer.hits},
                     {"hit_bytes", peer.hit_bytes},
                     {"misses", peer.misses},
                     {"waits", peer.waits},
                     {"writes", peer.writes},
                     {"write_bytes", peer.write_bytes},
                     {"errors", peer.errors},
                     {"corrupt", peer.corrupt},
                     {"seconds_p50", peer.seconds_p50},
                     {"seconds_p99", peer.seconds_p99},
                     {"bytes_per_second", peer.bytes_per_second},
                     {"list", peer.list}});
  }
  json all = {{"tiers", std::move(tiers)},
              {"peers", std::move(peers)},
              {"reads", stats.reads},
              {"shared_fetches", stats.shared_fetches},
              {"failures", stats.failures},
              {"engine",
               {{"name", stats.engine.name},
                {"fallback_reason", stats.engine.fallback_reason},
                {"queue_depth", stats.engine.queue_depth},
                {"queue_depth_max", stats.engine.queue_depth_max}}}};
  if (stats.bucket) all["bucket"] = to_json(*stats.bucket);
  if (stats.epoch_reads) {
    all["epoch_reads"] = {{"epoch", stats.epoch_reads->epoch},
                          {"source_reads", stats.epoch_reads->source_reads},
                          {"minimum_source_reads", stats.epoch_reads->minimum_source_reads},
                          {"disk_reads", stats.epoch_reads->disk_reads},
                          {"own_peer_reads", stats.epoch_reads->own_peer_reads},
                          {"peer_reads", stats.epoch_reads->peer_reads}};
  }
  return all;
}

// With nothing to push, nothing counts as asked for.
std::uint64_t with_staging(std::uint64_t bytes, const fuse::MountStats& stats) {
  return stats.ram_bytes > 0 ? bytes + stats.staging_bytes : 0;
}

json to_json(const fuse::MountStats& stats) {
  json requests = json::object();
  for (const fuse::RequestCount& request : stats.requests) requests[std::string(request.name)] = request.count;
  json reasons = json::object();
  for (const fuse::FailureCount& failure : stats.read_failure_reasons) {
    reasons[std::string(failure.reason)] = failure.count;
  }
  json waits = json::array();
  for (const fuse::WaitCount& wait : stats.read_waits) {
    waits.push_back({{"count", wait.count}});
    if (wait.seconds_max) waits.back()["seconds_max"] = *wait.seconds_max;
  }
  json all = {{"requests", std::move(requests)},
              {"request_total", stats.request_total},
              {"read_bytes", stats.read_bytes},
              {"read_failures", stats.read_failures},
              {"read_failure_reasons", std::move(reasons)},
              {"read_wait_seconds", stats.read_wait_seconds},
              {"read_waits", std::move(waits)},
              {"ram_bytes", with_staging(stats.ram_bytes, stats)},
              {"budget_bytes", with_staging(stats.budget_bytes, stats)},
              {"shortage", stats.shortage},
              {"staging_bytes", stats.staging_bytes},
              {"source_rate_bytes_per_second", stats.source_rate},
              {"page_cache_budget_bytes", stats.budget_bytes - stats.copies_budget_bytes},
              {"held_bytes", stats.held_bytes},
              {"held_samples", stats.held_samples},
              {"read_in_bytes", stats.read_in_bytes},
              {"copies_budget_bytes", stats.copies_budget_bytes},
              {"copies_bytes", stats.copies_bytes},
              {"copied_samples", stats.copied_samples},
              {"pinnable_bytes", stats.pinnable_bytes},
              {"pinned_bytes", stats.pinned_bytes},
              {"pinned_samples", stats.pinned_samples},
              {"pinned_held_samples", stats.pinned_held_samples},
              {"pushed_samples", stats.pushed_samples},
              {"pushed_bytes", stats.pushed_bytes},
              {"evicted_samples", stats.evicted_samples},
              {"push_failures", stats.push_failures},
              {"lost_samples", stats.lost_samples},
              {"opening_reads", stats.opening_reads},
              {"read_ahead_pauses", stats.read_ahead_pauses},
              {"read_ahead_paused_opens", stats.read_ahead_paused_opens},
              {"opens", stats.opens},
              {"hits", stats.hits},
              {"late", stats.late},
              {"strays", stats.strays},
              {"overflows", stats.overflows},
              {"epoch", stats.epoch},
              {"position", stats.position},
              {"ahead_samples", stats.ahead_samples},
              {"order", stats.order},
              {"order_found_by", stats.order_found_by},
              {"order_confidence_bits", stats.order_confidence_bits},
              {"order_opens", stats.order_opens},
              {"order_search_cpu_seconds", stats.order_search_cpu_seconds},
              {"order_search_seeds", stats.order_search_seeds},
              {"order_search_seeds_tested", stats.order_search_seeds_tested},
              {"order_search_seeds_per_second", stats.order_search_seeds_per_second},
              {"orders_given_up", stats.orders_given_up},
              {"order_given_up", stats.order_given_up},
              {"order_set", stats.order_set},
              {"learns_order", stats.learns_order},
              {"takeovers", stats.takeovers},
              {"renewals", stats.renewals},
              {"overlay", stats.overlay},
              {"fallbacks", stats.fallbacks}};
  if (stats.seconds_since_open) all["seconds_since_open"] = *stats.seconds_since_open;
  return all;
}

}  // namespace headrace::cli
