// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <prometheus/client_metric.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>

#include "headrace/cli/daemon/metrics.h"
#include "headrace/cli/show/json.h"
#include "headrace/cli/show/peer_words.h"
#include "headrace/cli/version.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using nlohmann::json;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

struct Definition {
  const char* member;  // of the JSON object
  const char* name;
  const char* help;
  MetricType type;
};

constexpr MetricType kCounter = MetricType::Counter;
constexpr MetricType kGauge = MetricType::Gauge;

constexpr Definition kMountMetrics[] = {
    {"opens", "headrace_opens_total", "Samples opened by the loader", kCounter},
    {"hits", "headrace_hits_total", "Samples that lay in the page cache when they were opened", kCounter},
    {"late", "headrace_late_total", "Samples opened while their push was under way", kCounter},
    {"strays", "headrace_strays_total", "Opens where the order did not expect them", kCounter},
    {"request_total", "headrace_requests_total", "Requests that reached the daemon", kCounter},
    {"read_bytes", "headrace_read_bytes_total", "Bytes sent in answer to READ", kCounter},
    {"read_failures", "headrace_read_failures_total", "READs that ended in an error", kCounter},
    {"read_wait_seconds", "headrace_read_wait_seconds_total", "Time that readers waited for READs", kCounter},
    {"push_failures", "headrace_push_failures_total", "Samples that could not be pushed", kCounter},
    {"pushed_samples", "headrace_pushed_samples_total", "Samples pushed into the page cache", kCounter},
    {"pushed_bytes", "headrace_pushed_bytes_total", "Bytes pushed into the page cache", kCounter},
    {"evicted_samples", "headrace_evicted_samples_total", "Samples taken out of the page cache", kCounter},
    {"read_ahead_pauses", "headrace_read_ahead_pauses_total", "Times that reading ahead was of no use", kCounter},
    {"lost_samples", "headrace_lost_samples_total", "Pushed samples that the kernel dropped on its own", kCounter},
    {"overflows", "headrace_inotify_overflows_total", "Times that opens went unseen", kCounter},
    {"takeovers", "headrace_takeovers_total", "Times that a worker died and another took over", kCounter},
    {"renewals", "headrace_renewals_total", "Times that the mount went on with other names of its source", kCounter},
    {"held_bytes", "headrace_page_cache_bytes", "Bytes pushed and held", kGauge},
    {"read_in_bytes", "headrace_read_in_bytes", "Bytes in the page cache that READs brought in", kGauge},
    {"page_cache_budget_bytes", "headrace_page_cache_budget_bytes", "Bytes that may be held", kGauge},
    {"ram_bytes", "headrace_ram_asked_bytes", "Memory that was asked for", kGauge},
    {"budget_bytes", "headrace_ram_budget_bytes", "The same, or less under memory pressure", kGauge},
    {"copies_bytes", "headrace_copies_bytes",
     "Bytes of copies held by the daemon, because the kernel drops pushed pages", kGauge},
    {"epoch", "headrace_epoch", "Epoch of the reader", kGauge},
    {"position", "headrace_position", "Position of the reader in its epoch", kGauge},
    {"ahead_samples", "headrace_ahead_samples", "Samples pushed or under way in front of the reader", kGauge},
};

constexpr Definition kTierMetrics[] = {
    {"used_bytes", "headrace_tier_used_bytes", "Bytes held by a tier", kGauge},
    {"budget_bytes", "headrace_tier_budget_bytes", "Bytes that a tier may hold now", kGauge},
    {"asked_bytes", "headrace_tier_asked_bytes", "Bytes that a tier was given; it may hold less while space is short",
     kGauge},
    {"keep_free_bytes", "headrace_tier_keep_free_bytes", "Bytes of its file system that a tier leaves free", kGauge},
    {"samples", "headrace_tier_samples", "Samples held by a tier", kGauge},
    {"hits", "headrace_tier_hits_total", "Reads served by a tier", kCounter},
    {"hit_bytes", "headrace_tier_hit_bytes_total", "Bytes served by a tier", kCounter},
    {"write_bytes", "headrace_tier_write_bytes_total", "Bytes admitted to a tier", kCounter},
    {"evictions", "headrace_tier_evictions_total", "Records evicted from a tier", kCounter},
    {"errors", "headrace_tier_errors_total", "I/O errors of a tier", kCounter},
    {"corrupt", "headrace_tier_corrupt_total", "Records dropped because a checksum failed", kCounter},
};

constexpr Definition kPeerMetrics[] = {
    {"bytes", "headrace_peer_placed_bytes", "Bytes that a peer is to hold", kGauge},
    {"hits", "headrace_peer_hits_total", "Chunks that a peer gave", kCounter},
    {"hit_bytes", "headrace_peer_hit_bytes_total", "Bytes that a peer gave", kCounter},
    {"misses", "headrace_peer_misses_total", "Gets that a peer had no right value for", kCounter},
    {"write_bytes", "headrace_peer_write_bytes_total", "Bytes that a peer was given", kCounter},
    {"errors", "headrace_peer_errors_total", "Gets and puts that a peer did not answer, or too late", kCounter},
    {"corrupt", "headrace_peer_corrupt_total", "Wrong values that a peer gave; none was served", kCounter},
    {"seconds_p99", "headrace_peer_seconds_p99", "Time in which 99 % of gets were answered, within a factor of two",
     kGauge},
};

constexpr Definition kBucketMetrics[] = {
    {"lists", "headrace_bucket_lists_total", "Requests that listed the bucket", kCounter},
    {"bytes", "headrace_bucket_bytes_total", "Bytes of content that the bucket gave", kCounter},
    {"retries", "headrace_bucket_retries_total", "Requests that were sent again", kCounter},
    {"hedges", "headrace_bucket_hedges_total", "Second requests for reads that took long", kCounter},
    {"hedges_won", "headrace_bucket_hedges_won_total", "Second requests that were faster", kCounter},
    {"errors", "headrace_bucket_errors_total", "Reads of the bucket that failed for good", kCounter},
    {"dollars", "headrace_bucket_dollars_total", "Price of all requests, an estimate with that of Amazon S3 Standard",
     kCounter},
    {"in_flight", "headrace_bucket_in_flight", "Requests under way", kGauge},
    {"in_flight_limit", "headrace_bucket_in_flight_limit", "As many may be under way now", kGauge},
    {"queued", "headrace_bucket_queued", "Reads of the bucket that wait for their turn", kGauge},
};

constexpr Definition kBucketRequests = {"", "headrace_bucket_requests_total", "Requests by how they ended", kCounter};
// Members of the figures, and the words for them.
constexpr std::pair<const char*, const char*> kOutcomes[] = {
    {"good", "good"}, {"refused", "refused"}, {"throttles", "throttled"}, {"broken", "broken"}};
constexpr Definition kBucketLatency = {"latencies", "headrace_bucket_read_seconds",
                                       "From a request for content to all of it", MetricType::Histogram};

constexpr Definition kPeerUp = {"state", "headrace_peer_up", "0: a peer is down; headrace peers says why", kGauge};
constexpr Definition kPeerAgrees = {"list", "headrace_peer_agrees",
                                    "0: its node was named other peers or has listed other files", kGauge};
constexpr Definition kEpochPart = {"", "headrace_epoch_part",
                                   "Part of the epoch's samples so far that came from this node, the peers, the source",
                                   kGauge};
constexpr Definition kTierOk = {"state", "headrace_tier_ok",
                                "0: a tier takes no records, though there is room; stat says why", kGauge};
constexpr Definition kFailureReasons = {"read_failure_reasons", "headrace_read_failure_reasons_total",
                                        "READs that ended in an error, by the name of the errno", kCounter};
constexpr Definition kReadWaits = {"read_waits", "headrace_read_wait_seconds",
                                   "How long readers waited for the answers to READs", MetricType::Histogram};
constexpr Definition kBuildInfo = {"", "headrace_build_info", "Always 1; the label has the version", kGauge};
constexpr Definition kUp = {"", "headrace_up", "0: the daemon of a mount does not answer", kGauge};

ClientMetric make_metric(MetricType type, double value, Labels labels) {
  ClientMetric metric;
  metric.label = std::move(labels);
  (type == kCounter ? metric.counter.value : metric.gauge.value) = value;
  return metric;
}

MetricFamily make_family(const Definition& definition) {
  MetricFamily family;
  family.name = definition.name;
  family.help = definition.help;
  family.type = definition.type;
  return family;
}

MetricFamily make_family(const Definition& definition, double value, Labels labels) {
  MetricFamily family = make_family(definition);
  family.metric.push_back(make_metric(definition.type, value, std::move(labels)));
  return family;
}

void add_peers(const json& peers, const std::string& mount_point, std::vector<MetricFamily>& families) {
  const auto labels = [&](const json& peer) { return Labels{{"mount", mount_point}, {"peer", text_of(peer, "name")}}; };
  if (peers.empty()) return;
  for (const Definition& definition : kPeerMetrics) {
    families.push_back(make_family(definition));
    for (const json& peer : peers) {
      const double value = real_of(peer, definition.member);
      families.back().metric.push_back(make_metric(definition.type, value, labels(peer)));
    }
  }
  families.push_back(make_family(kPeerUp));
  for (const json& peer : peers) {
    const double value = text_of(peer, kPeerUp.member).starts_with("down") ? 0 : 1;
    families.back().metric.push_back(make_metric(kPeerUp.type, value, labels(peer)));
  }
  families.push_back(make_family(kPeerAgrees));
  for (const json& peer : peers) {
    const double value = text_of(peer, kPeerAgrees.member).starts_with("other") ? 0 : 1;
    families.back().metric.push_back(make_metric(kPeerAgrees.type, value, labels(peer)));
  }
}

// Nothing where nothing is shared.
void add_epoch_parts(const json& stat, const std::string& mount_point, std::vector<MetricFamily>& families) {
  const EpochShares shares = epoch_shares(stat);
  if (shares.own + shares.peers + shares.source == 0) return;
  families.push_back(make_family(kEpochPart));
  for (const auto& [from, part] :
       {std::pair("own", shares.own), std::pair("peers", shares.peers), std::pair("source", shares.source)}) {
    families.back().metric.push_back(make_metric(kGauge, part, {{"mount", mount_point}, {"from", from}}));
  }
}

Labels labels_of(const std::string& mount_point, const json& tier) {
  return {{"mount", mount_point}, {"tier", text_of(tier, "kind")}, {"path", text_of(tier, "path")}};
}

MetricFamily failure_family(const json& mount, const std::string& mount_point) {
  MetricFamily family = make_family(kFailureReasons);
  const json& reasons = member_of(mount, kFailureReasons.member);
  for (const auto& [reason, ignored] : reasons.items()) {
    family.metric.push_back(
        make_metric(kCounter, real_of(reasons, reason.c_str()), {{"mount", mount_point}, {"reason", reason}}));
  }
  return family;
}

// Prometheus counts in each bucket those of the smaller ones, too. `sum`: the member with all times together.
MetricFamily times_family(const Definition& definition, const json& figures, const char* sum,
                          const std::string& mount_point) {
  ClientMetric metric;
  metric.label = {{"mount", mount_point}};
  std::uint64_t count = 0;
  for (const json& each : member_of(figures, definition.member)) {
    count += number_of(each, "count");
    const bool is_last = member_of(each, "seconds_max").is_null() || real_of(each, "seconds_max") <= 0;
    const double bound = is_last ? std::numeric_limits<double>::infinity() : real_of(each, "seconds_max");
    metric.histogram.bucket.push_back({count, bound});
  }
  metric.histogram.sample_count = count;
  metric.histogram.sample_sum = real_of(figures, sum);
  MetricFamily family = make_family(definition);
  family.metric.push_back(std::move(metric));
  return family;
}

// Nothing where the source is no bucket.
void add_bucket(const json& bucket, const std::string& mount_point, std::vector<MetricFamily>& families) {
  if (bucket.empty()) return;
  for (const Definition& definition : kBucketMetrics) {
    families.push_back(make_family(definition, real_of(bucket, definition.member), {{"mount", mount_point}}));
  }
  families.push_back(make_family(kBucketRequests));
  for (const auto& [member, outcome] : kOutcomes) {
    families.back().metric.push_back(
        make_metric(kCounter, real_of(bucket, member), {{"mount", mount_point}, {"outcome", outcome}}));
  }
  families.push_back(times_family(kBucketLatency, bucket, "latency_seconds", mount_point));
}

void add_tiers(const json& tiers, const std::string& mount_point, std::vector<MetricFamily>& families) {
  for (const Definition& definition : kTierMetrics) {
    families.push_back(make_family(definition));
    for (const json& tier : tiers) {
      const double value = real_of(tier, definition.member);
      families.back().metric.push_back(make_metric(definition.type, value, labels_of(mount_point, tier)));
    }
  }
  families.push_back(make_family(kTierOk));
  for (const json& tier : tiers) {
    const std::string state = text_of(tier, kTierOk.member);
    const double value = state == "ok" || state == "full" || state.starts_with("short") ? 1 : 0;
    families.back().metric.push_back(make_metric(kTierOk.type, value, labels_of(mount_point, tier)));
  }
}

std::vector<MetricFamily> families_of(const json& stat, const std::string& mount_point) {
  std::vector<MetricFamily> families;
  const json& mount = member_of(stat, "mount");
  for (const Definition& definition : kMountMetrics) {
    families.push_back(make_family(definition, real_of(mount, definition.member), {{"mount", mount_point}}));
  }
  families.push_back(failure_family(mount, mount_point));
  families.push_back(times_family(kReadWaits, mount, "read_wait_seconds", mount_point));
  const json& store = member_of(stat, "store");
  add_tiers(member_of(store, "tiers"), mount_point, families);
  add_peers(member_of(store, "peers"), mount_point, families);
  add_epoch_parts(stat, mount_point, families);
  add_bucket(member_of(store, "bucket"), mount_point, families);
  families.push_back(make_family(kBuildInfo, 1, {{"mount", mount_point}, {"version", text_of(stat, "version")}}));
  return families;
}

MetricFamily up_family(const std::vector<MountFigures>& mounts) {
  MetricFamily family = make_family(kUp);
  for (const MountFigures& mount : mounts) {
    family.metric.push_back(make_metric(kGauge, mount.stat ? 1 : 0, {{"mount", mount.mount_point}}));
  }
  return family;
}

class Collector : public prometheus::Collectable {
 public:
  Collector(MetricsPage page, LookAtMounts look) : page_(page), look_(std::move(look)) {}

  // A family stands on the page once, with the series of all mounts.
  [[nodiscard]] std::vector<MetricFamily> Collect() const override {
    const std::vector<MountFigures> mounts = look_();
    std::map<std::string, MetricFamily> by_name;
    for (const MountFigures& mount : mounts) {
      if (!mount.stat) continue;
      for (MetricFamily& family : families_of(*mount.stat, mount.mount_point)) {
        const auto [known, is_new] = by_name.try_emplace(family.name, std::move(family));
        if (is_new) continue;
        std::move(family.metric.begin(), family.metric.end(), std::back_inserter(known->second.metric));
      }
    }
    if (page_ == MetricsPage::kMachine) add_own_version(by_name);
    std::vector<MetricFamily> families = {up_family(mounts)};
    for (auto& [name, family] : by_name) families.push_back(std::move(family));
    return families;
  }

 private:
  // Without a mount: that of the program which serves the page.
  static void add_own_version(std::map<std::string, MetricFamily>& by_name) {
    MetricFamily& family = by_name.try_emplace(kBuildInfo.name, make_family(kBuildInfo)).first->second;
    family.metric.push_back(make_metric(kGauge, 1, {{"version", kVersion}}));
  }

  const MetricsPage page_;
  const LookAtMounts look_;
};

// The page for those who only want to know whether it serves: it asks for the figures as /metrics does, so a daemon
// that hangs does not answer.
class Health : public prometheus::Collectable {
 public:
  explicit Health(LookAtMounts look) : look_(std::move(look)) {}

  [[nodiscard]] std::vector<MetricFamily> Collect() const override { return {up_family(look_())}; }

 private:
  const LookAtMounts look_;
};

// A connection that sends nothing has a thread to itself until its time is over, so there are more threads than one.
// 2 s: a packet that was lost has been sent again by then. 8: so many who hang cost the others nothing; a thread that
// idles costs no more than its stack.
std::vector<std::string> server_options(const std::string& address) {
  return {"listening_ports", address, "num_threads", "8", "request_timeout_ms", "2000"};
}

class PrometheusServer : public MetricsServer {
 public:
  PrometheusServer(const std::string& address, MetricsPage page, const LookAtMounts& look)
      : url_(fmt::format("http://{}/metrics", address)),
        collector_(std::make_shared<Collector>(page, look)),
        health_(std::make_shared<Health>(look)),
        exposer_(server_options(address)) {
    exposer_.RegisterCollectable(collector_);
    exposer_.RegisterCollectable(health_, "/healthz");
  }
  [[nodiscard]] std::string url() const override { return url_; }

 private:
  const std::string url_;
  std::shared_ptr<Collector> collector_;
  std::shared_ptr<Health> health_;
  prometheus::Exposer exposer_;  // last: its threads use the collector
};

// Makes "127.0.0.1:9750" of "9750". Nothing when the text is no address.
std::optional<std::string> complete_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const std::string_view port_text = colon == std::string_view::npos ? text : text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, failure] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (failure != std::errc{} || end != port_text.data() + port_text.size() || port == 0 || colon == 0) {
    return std::nullopt;
  }
  return colon == std::string_view::npos ? fmt::format("127.0.0.1:{}", port) : std::string(text);
}

}  // namespace

io::Status check_metrics_address(std::string_view option, const std::string& address) {
  if (address.empty() || complete_address(address)) return {};
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("{} '{}' is no address; write PORT or ADDRESS:PORT, for instance 9750", option, address));
}

io::Result<std::unique_ptr<MetricsServer>> start_metrics(std::string_view option, const std::string& address,
                                                         MetricsPage page, const LookAtMounts& look) {
  if (address.empty()) return nullptr;
  HEADRACE_TRY_DO(check_metrics_address(option, address));
  try {
    return std::make_unique<PrometheusServer>(*complete_address(address), page, look);
  } catch (const std::exception&) {  // civetweb's text does not help; the usual reason is a port in use
    return make_error(
        ErrorCode::kBusy,
        fmt::format("{} {}: nothing can listen there; is the port in use, or the address another machine's?", option,
                    address));
  }
}

}  // namespace headrace::cli
