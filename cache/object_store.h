// SPDX-License-Identifier: Apache-2.0
// A bucket of an object store as a data set: how it is named and reached, and what its client counts.
//
//   HEADRACE_TRY(options, parse_object_url("s3://bucket/train"));
//   options.endpoint = "http://127.0.0.1:9000";   // not Amazon's own
//   show(name_of(options));                       // "s3://127.0.0.1:9000/bucket/train/"
//
// Spoken is Amazon S3's protocol, which Google Cloud Storage, Ceph, MinIO, Swift and most others speak too.
//
// Thread-safety and ownership: plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/io/result.h"
#include "headrace/io/secret.h"

namespace headrace::cache {

// What a request is signed with. Never taken from a command line, where `ps` would show it.
struct AccessKeys {
  std::string id;
  io::Secret secret;
  io::Secret session_token;  // empty: the keys are permanent
};

// Limits of the client; tests make them short.
struct ObjectTuning {
  unsigned in_flight_first = 64;   // requests; doubled while more of them bring more
  unsigned in_flight_max = 1'024;  // 14 300 GET/s at 60 ms are 860; each costs a connection and 128 KiB
  unsigned attempts_max = 6;
  std::chrono::milliseconds give_up_after{60'000};  // since the first attempt
  std::chrono::milliseconds backoff_first{50};      // drawn from 0 to this, doubled with each attempt
  std::chrono::milliseconds backoff_max{10'000};
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds stall_timeout{5'000};  // an answer that moves no byte for so long is given up, or sooner
  std::chrono::milliseconds hedge_floor{100};      // no second request sooner than this
  bool hedge = true;
};

struct ObjectStoreOptions {
  std::string bucket;
  std::string prefix;            // empty, or ends in '/'
  std::string endpoint;          // URL; empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, Amazon's own
  std::string region;            // empty: AWS_REGION, AWS_DEFAULT_REGION, the profile's, what the store says
  std::string profile;           // in ~/.aws; empty: AWS_PROFILE, "default"
  std::string ca_file;           // PEM; empty: AWS_CA_BUNDLE, the system's
  bool no_sign_request = false;  // a public bucket
  bool requester_pays = false;
  // The bucket in the path, not in the host name; nullopt: unless it is Amazon's own and the name may be part of one.
  std::optional<bool> path_style;
  std::optional<AccessKeys> keys;  // nullopt: they are looked for, see ObjectStoreStats::credentials
  ObjectTuning tuning = {};
  // For tests: instead of the process's environment. nullptr: there is no such variable.
  std::function<const char*(const char* name)> environment = {};
};

struct ObjectStoreStats {
  std::uint64_t requests = 0;  // sent, whatever came of them; a store takes money for each
  std::uint64_t lists = 0;     // of these, listings
  std::uint64_t bytes = 0;     // of content received
  // How the requests ended: in one of these three ways, or as throttles. Those that are left are under way, or were
  // ended because another request was faster or took their place.
  std::uint64_t good = 0;
  std::uint64_t refused = 0;  // clear answers that no other attempt changes: no such object, another one, no right
  std::uint64_t broken = 0;   // lost, stalled, too short, or an error of the store's own
  std::uint64_t retries = 0;
  std::uint64_t hedges = 0;      // second requests for reads that took long
  std::uint64_t hedges_won = 0;  // of these, those that were faster
  std::uint64_t throttles = 0;   // answers that asked to slow down (503)
  std::uint64_t errors = 0;      // reads that failed for good; not those of an object that is gone or another
  std::uint64_t stale = 0;       // reads of an object that is another
  unsigned in_flight = 0;        // requests now
  unsigned in_flight_limit = 0;  // as many as may be, now
  std::uint64_t queued = 0;      // reads that wait for their turn
  std::chrono::microseconds latency_p50{0};  // of the last reads, from sent to complete
  std::chrono::microseconds latency_p95{0};
  std::chrono::microseconds latency_p99{0};
  struct LatencyCount {
    std::optional<double> seconds_max;  // more than the bound before, at most this; nullopt: longer than all bounds
    std::uint64_t count = 0;
  };
  std::vector<LatencyCount> latencies;  // of all reads
  double latency_seconds = 0;           // summed up
  std::string credentials;  // where the keys were found: "environment", "profile train", "none"; never the keys
  std::string region;
  std::string endpoint;  // these four: how the bucket is reached, for who asks it, too
  std::string profile;
  bool no_sign_request = false;
  bool requester_pays = false;
  std::chrono::seconds clock_behind{0};  // by how much this machine's clock is behind the store's; 0: it is right
};

// s3://BUCKET[/PREFIX] or gs://BUCKET[/PREFIX] (Google's store through its S3 face).
// Errors: kInvalidArgument, naming what is wrong with it.
[[nodiscard]] io::Result<ObjectStoreOptions> parse_object_url(std::string_view url);
// Whether a source is a bucket, by the beginning of its name.
[[nodiscard]] bool is_object_url(std::string_view source);
// Asks for one name of the bucket: whether it can be reached with these keys. Returns what the client has counted then.
// Errors: as parse_object_url(); what reaching the bucket ends with.
[[nodiscard]] io::Result<ObjectStoreStats> probe_bucket(std::string_view url, const ObjectStoreOptions& options);
// The same for everyone who reads this bucket: s3://HOST/BUCKET/PREFIX/. Amazon's own is s3://BUCKET/PREFIX/.
[[nodiscard]] std::string name_of(const ObjectStoreOptions& options);

}  // namespace headrace::cache
