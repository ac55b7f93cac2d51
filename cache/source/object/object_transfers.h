// SPDX-License-Identifier: Apache-2.0
// The client's thread, hr-objects: what waits, what is in flight, what is tried again, and when. The essay on it is in
// object_client.h.
//
// Thread-safety: submit(), hurry(), stop(), stats() from any thread, join() once; all else is the client's thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "headrace/cache/source/object/endpoint.h"
#include "headrace/cache/source/object/http_loop.h"
#include "headrace/cache/source/object/key_keeper.h"
#include "headrace/cache/source/object/latencies.h"
#include "headrace/cache/source/object/object_attempt.h"
#include "headrace/cache/source/object/object_client.h"
#include "headrace/cache/source/object/object_requests.h"
#include "headrace/cache/source/object/object_verdict.h"
#include "headrace/cache/source/object/request_counts.h"
#include "headrace/cache/source/object/request_window.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {

class ObjectTransfers {
 public:
  // `keeper` is null where requests are not signed, or with keys that the options gave.
  ObjectTransfers(const ObjectStoreOptions& options, Endpoint endpoint, KeyKeeper* keeper);
  ~ObjectTransfers() { join(); }
  ObjectTransfers(const ObjectTransfers&) = delete;
  ObjectTransfers& operator=(const ObjectTransfers&) = delete;

  [[nodiscard]] io::Status start();
  void submit(ObjectRead* read, ObjectQuery* query);  // one of the two
  void hurry(const void* known_as);
  void stop();
  void join();
  [[nodiscard]] ObjectStoreStats stats() const;

 private:
  using Clock = std::chrono::steady_clock;
  using JobId = std::uint64_t;

  // A read or a query until its on_done.
  struct Job {
    ObjectRead* read = nullptr;
    ObjectQuery* query = nullptr;
    bool waits = true;             // somebody waits for it
    Clock::time_point began = {};  // the first attempt; unset: none yet
    unsigned attempts = 0;
    unsigned hedges = 0;     // beside the last attempt
    unsigned failures = 0;   // of attempts that say something about this object
    unsigned follows = 0;    // redirects
    std::string place = {};  // scheme and host that a redirect gave; empty: the endpoint's
    bool has_renewed_keys = false;
    bool waits_for_token = false;  // the last one has expired
    bool has_set_clock = false;
    bool has_changed_region = false;
    bool has_taken_packed = false;
    std::optional<io::Error> last_error = {};
    std::vector<std::unique_ptr<ObjectAttempt>> live = {};  // kLiveMax at most
  };

  void run();
  void take_submitted();
  void start_waiting();
  void fire_timers();
  void wait_for(const void* known_as);
  void look_at_in_flight();
  [[nodiscard]] bool may_be_hedged(const Job& job) const;
  [[nodiscard]] Latencies::Duration late_after(const Job& job) const;
  void hedge(JobId id, Job& job, std::size_t late);
  [[nodiscard]] Latencies::Duration stall_time(const Job& job) const;
  void end_stalled(ObjectAttempt& attempt, Clock::time_point now);
  [[nodiscard]] std::chrono::milliseconds time_to_next() const;

  void begin(JobId id, Job& job, bool is_hedge);
  [[nodiscard]] std::string what(const Job& job) const;

  void on_end(ObjectAttempt& attempt, const HttpEnd& end);
  void on_success(JobId id, Job& job, ObjectAttempt& attempt);
  void on_trouble(JobId id, Job& job, const ObjectAnswer& answer, const KeyKeeper::KeysPtr& keys);
  void try_later(JobId id, Job& job, const ObjectAnswer& answer, bool is_objects_own);
  void try_at_once(JobId id, const Job& job);
  void renew_keys(JobId id, const KeyKeeper::KeysPtr& refused);
  void finish(JobId id, io::Status status);
  void remove(ObjectAttempt& attempt);
  void note_pace();
  void publish_latencies();

  const ObjectStoreOptions options_;
  const std::string name_;
  KeyKeeper* const keeper_;

  // The client's thread.
  HttpLoop http_;
  ObjectRequests requests_;
  RequestWindow window_;
  Latencies latencies_;
  std::minstd_rand random_;
  JobId next_id_ = 1;
  std::unordered_map<JobId, std::unique_ptr<Job>> jobs_;
  std::deque<JobId> waited_for_;
  std::deque<JobId> ahead_;
  std::unordered_map<const void*, JobId> known_;  // reads ahead that nobody waits for yet, by what they are known as
  std::unordered_set<ObjectAttempt*> in_flight_;
  std::multimap<Clock::time_point, JobId> timers_;     // when to try again
  std::vector<std::unique_ptr<ObjectAttempt>> ended_;  // until nobody is within them any more
  Clock::time_point next_look_ = {};
  bool has_answered_ = false;   // the store, at all
  bool has_succeeded_ = false;  // a request
  bool is_slowed_ = false;      // as the log says
  bool tells_by_time_ = false;  // some of its answers have no strong ETag

  RequestCounts counts_;
  std::atomic<std::uint64_t> queued_ = 0;
  std::atomic<unsigned> in_flight_count_ = 0, limit_ = 0;
  std::atomic<std::int64_t> p50_us_ = 0, p95_us_ = 0, p99_us_ = 0;

  mutable io::Mutex mutex_;
  std::vector<std::unique_ptr<Job>> submitted_ HEADRACE_GUARDED_BY(mutex_);
  std::vector<const void*> hurried_ HEADRACE_GUARDED_BY(mutex_);
  std::vector<std::pair<JobId, KeyKeeper::KeysPtr>> renewed_ HEADRACE_GUARDED_BY(mutex_);  // and the refused keys
  bool closed_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace headrace::cache
