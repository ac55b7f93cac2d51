// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/object/object_transfers.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>

#include "headrace/cache/source/object/endpoint.h"
#include "headrace/io/log.h"
#include "headrace/io/printable.h"

namespace headrace::cache {
namespace {

using io::Error;
using io::ErrorCode;
using io::MutexLock;
using std::chrono::milliseconds;

constexpr unsigned kFollowsMax = 2;
constexpr std::size_t kPublishEvery = 64;  // answers
constexpr std::size_t kLatenciesKnown = 64;
constexpr milliseconds kStallMin{500};
// A fifth of the least that is late. 1 024 requests in flight are looked at in 60 us.
constexpr milliseconds kLookEvery{20};
// Where one of a hundred stalls, three second requests leave one of a hundred million stalled. What is late after
// seven times as long is left to stall_time().
constexpr unsigned kHedgesMax = 3;
constexpr std::size_t kLiveMax = 2;
constexpr unsigned kSlowerMax = 2;  // doublings of the longest stall: a first byte after 20 s is one still

RequestCounts::Answer outcome_of(Verdict verdict, const ObjectAnswer& answer) {
  using Answer = RequestCounts::Answer;
  if (verdict == Verdict::kDone) return Answer::kGood;
  if (verdict == Verdict::kSlowDown && !answer.never_connected) return Answer::kBusy;
  return verdict == Verdict::kTryAgain || verdict == Verdict::kSlowDown ? Answer::kBroken : Answer::kRefused;
}

std::int64_t as_us(Latencies::Duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

}  // namespace

ObjectTransfers::ObjectTransfers(const ObjectStoreOptions& options, Endpoint endpoint, KeyKeeper* keeper)
    : options_(options),
      name_(name_of(options)),
      keeper_(keeper),
      http_({.ca_file = options.ca_file,
             .connect_timeout = options.tuning.connect_timeout,
             .connections_max = options.tuning.in_flight_max}),
      requests_(options, std::move(endpoint), keeper),
      window_(options.tuning.in_flight_first, options.tuning.in_flight_max),
      latencies_(options.tuning.hedge_floor),
      random_(std::random_device()()),
      limit_(options.tuning.in_flight_first) {}

io::Status ObjectTransfers::start() {
  HEADRACE_TRY_DO(http_.ready());
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "hr-objects");
    run();
  });
  return {};
}

// --- From any thread ---

void ObjectTransfers::submit(ObjectRead* read, ObjectQuery* query) {
  auto job = std::make_unique<Job>();
  job->read = read;
  job->query = query;
  job->waits = read == nullptr || !read->ahead;
  {
    MutexLock lock(mutex_);
    if (!closed_) {
      submitted_.push_back(std::move(job));
      // Who is on the client's thread is followed by take_submitted(); who is not the first has been announced.
      if (submitted_.size() == 1 && std::this_thread::get_id() != thread_.get_id()) http_.wake();
      return;
    }
  }
  const Error error{ErrorCode::kCancelled, 0, name_};
  if (read != nullptr) {
    read->on_done(*read, tl::unexpected<Error>(error));
  } else {
    query->on_done(*query, tl::unexpected<Error>(error));
  }
}

void ObjectTransfers::hurry(const void* known_as) {
  MutexLock lock(mutex_);
  if (closed_) return;
  hurried_.push_back(known_as);
  if (hurried_.size() == 1) http_.wake();
}

void ObjectTransfers::stop() {
  MutexLock lock(mutex_);
  closed_ = true;
  http_.wake();
}

void ObjectTransfers::join() {
  stop();
  if (thread_.joinable()) thread_.join();
}

ObjectStoreStats ObjectTransfers::stats() const {
  ObjectStoreStats stats;
  counts_.fill(stats);
  stats.in_flight = in_flight_count_.load();
  stats.in_flight_limit = limit_.load();
  stats.queued = queued_.load();
  stats.latency_p50 = std::chrono::microseconds(p50_us_.load());
  stats.latency_p95 = std::chrono::microseconds(p95_us_.load());
  stats.latency_p99 = std::chrono::microseconds(p99_us_.load());
  stats.clock_behind = requests_.clock_behind();
  stats.region = requests_.region();
  stats.endpoint = options_.endpoint;
  stats.profile = options_.profile;
  stats.no_sign_request = options_.no_sign_request;
  stats.requester_pays = options_.requester_pays;
  return stats;
}

// --- The client's thread ---

void ObjectTransfers::run() {
  for (;;) {
    take_submitted();
    {
      MutexLock lock(mutex_);
      if (closed_ && submitted_.empty()) break;
    }
    fire_timers();
    start_waiting();
    ended_.clear();
    http_.run_once(time_to_next());
  }
  // Nothing is added any more: submit() sees closed_.
  while (!jobs_.empty()) {
    finish(jobs_.begin()->first, tl::unexpected<Error>(Error{ErrorCode::kCancelled, 0, name_}));
  }
  ended_.clear();
}

void ObjectTransfers::take_submitted() {
  std::vector<std::unique_ptr<Job>> jobs;
  std::vector<const void*> hurried;
  std::vector<std::pair<JobId, KeyKeeper::KeysPtr>> renewed;
  {
    MutexLock lock(mutex_);
    jobs.swap(submitted_);
    hurried.swap(hurried_);
    renewed.swap(renewed_);
  }
  for (std::unique_ptr<Job>& job : jobs) {
    const JobId id = next_id_++;
    (job->waits ? waited_for_ : ahead_).push_back(id);
    if (!job->waits && job->read->known_as != nullptr) known_.insert_or_assign(job->read->known_as, id);
    jobs_.emplace(id, std::move(job));
  }
  for (const void* const known_as : hurried) wait_for(known_as);
  for (const auto& [id, refused] : renewed) {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) continue;
    Job& job = *found->second;
    if (keeper_->current() != refused) {
      try_at_once(id, job);
    } else if (job.waits_for_token) {
      try_later(id, job, {}, false);  // whoever writes the next one is late
    } else {
      finish(id, tl::unexpected<Error>(*job.last_error));
    }
  }
  queued_.store(waited_for_.size() + ahead_.size(), std::memory_order_relaxed);
}

void ObjectTransfers::start_waiting() {
  while (in_flight_.size() < window_.limit() && (!waited_for_.empty() || !ahead_.empty())) {
    std::deque<JobId>& queue = waited_for_.empty() ? ahead_ : waited_for_;
    const JobId id = queue.front();
    queue.pop_front();
    begin(id, *jobs_.at(id), false);
  }
  queued_.store(waited_for_.size() + ahead_.size(), std::memory_order_relaxed);
  limit_.store(window_.limit(), std::memory_order_relaxed);
}

milliseconds ObjectTransfers::time_to_next() const {
  constexpr milliseconds kLong{60'000};  // nothing is due; wake() comes when there is something
  milliseconds wait = kLong;
  const Clock::time_point now = Clock::now();
  const auto until = [&](Clock::time_point time) {
    wait = std::clamp(std::chrono::ceil<milliseconds>(time - now), milliseconds(0), wait);
  };
  if (!timers_.empty()) until(timers_.begin()->first);
  if (!in_flight_.empty()) until(next_look_);
  // An on_done that has asked for more did so on this thread, which nobody has to wake.
  MutexLock lock(mutex_);
  return submitted_.empty() && !closed_ ? wait : milliseconds(0);
}

void ObjectTransfers::fire_timers() {
  const Clock::time_point now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const JobId id = timers_.begin()->second;
    timers_.erase(timers_.begin());
    const auto found = jobs_.find(id);
    if (found != jobs_.end()) try_at_once(id, *found->second);  // else it has ended meanwhile
  }
  if (now >= next_look_) look_at_in_flight();
}

void ObjectTransfers::wait_for(const void* known_as) {
  const auto known = known_.find(known_as);
  if (known == known_.end()) return;
  const JobId id = known->second;
  known_.erase(known);
  Job& job = *jobs_.at(id);
  job.waits = true;
  const auto queued = std::find(ahead_.begin(), ahead_.end(), id);
  if (queued == ahead_.end()) return;
  waited_for_.push_back(id);
  ahead_.erase(queued);
}

// What takes long is told by how long others take now, which one timer per request would not follow.
void ObjectTransfers::look_at_in_flight() {
  const Clock::time_point now = Clock::now();
  next_look_ = now + std::min<Clock::duration>(kLookEvery, options_.tuning.stall_timeout / 4);
  std::vector<ObjectAttempt*> stalled;
  std::vector<JobId> may_need_another;
  std::size_t late = 0;
  for (ObjectAttempt* const attempt : in_flight_) {
    const Job& job = *jobs_.at(attempt->job);
    const Clock::duration age = now - attempt->sent;
    if (age >= latencies_.late_after()) ++late;
    if (now - attempt->last_byte >= stall_time(job)) {
      stalled.push_back(attempt);
    } else if (attempt == job.live.back().get() && age >= late_after(job) && may_be_hedged(job)) {
      may_need_another.push_back(attempt->job);
    }
  }
  for (ObjectAttempt* const attempt : stalled) {
    if (in_flight_.contains(attempt)) end_stalled(*attempt, now);  // the end of one may have taken its sibling with it
  }
  for (const JobId id : may_need_another) {
    const auto found = jobs_.find(id);
    if (found != jobs_.end()) hedge(id, *found->second, late);
  }
}

// Reads ahead, too: the reader is close behind them, and would wait for each that stalls, one after the other. Nothing
// is known at first, and then only those that somebody waits for are worth a guess.
bool ObjectTransfers::may_be_hedged(const Job& job) const {
  // Without an ETag two answers might be of two versions, and one buffer would hold a mixture.
  if (job.read == nullptr || job.read->etag == nullptr || !options_.tuning.hedge || tells_by_time_) return false;
  return (job.waits || latencies_.count() >= kLatenciesKnown) && job.hedges < kHedgesMax;
}

// Twice as long with each second request, so that a store that has become slow gets the time that it takes.
Latencies::Duration ObjectTransfers::late_after(const Job& job) const {
  return latencies_.late_after() * (1U << job.hedges);
}

// A second request may stall as well, or fail. Then another one takes the place of the one that is silent the longest.
void ObjectTransfers::hedge(JobId id, Job& job, std::size_t late) {
  if (job.live.empty()) return;
  const auto heard_before = [](const auto& one, const auto& other) { return one->last_byte < other->last_byte; };
  ObjectAttempt& silent = **std::min_element(job.live.begin(), job.live.end(), heard_before);
  const bool is_full = job.live.size() == kLiveMax;
  if (is_full && Clock::now() - silent.last_byte < latencies_.late_after()) return;  // both bring bytes
  if (!latencies_.may_hedge(job.waits, late, window_.limit())) return;
  if (is_full) remove(silent);
  counts_.hedged();
  ++job.hedges;
  begin(id, job, true);
}

// How long an attempt may move no byte. An answer that stalls holds a place among those in flight: where it is known
// how long such answers take, that is found out sooner. The time doubles with each failure, so that a store that has
// become slow is not taken for one that stalls.
Latencies::Duration ObjectTransfers::stall_time(const Job& job) const {
  const Latencies::Duration most = options_.tuning.stall_timeout * (1U << std::min(job.failures, kSlowerMax));
  if (job.read == nullptr || latencies_.count() < kLatenciesKnown) return most;
  const auto least = std::max<Latencies::Duration>(kStallMin, 4 * latencies_.late_after());
  return std::min<Latencies::Duration>(most, least * (1U << std::min(job.failures, 8U)));
}

void ObjectTransfers::end_stalled(ObjectAttempt& attempt, Clock::time_point now) {
  http_.cancel(attempt.exchange);
  const auto silence = std::chrono::duration_cast<milliseconds>(now - attempt.last_byte);
  on_end(attempt, {.trouble = fmt::format("no byte came for {} ms", silence.count())});
}

std::string ObjectTransfers::what(const Job& job) const {
  return job.read == nullptr ? name_ : name_ + io::printable(job.read->key);
}

void ObjectTransfers::begin(JobId id, Job& job, bool is_hedge) {
  const Clock::time_point now = Clock::now();
  if (job.began == Clock::time_point()) job.began = now;
  auto attempt =
      std::make_unique<ObjectAttempt>(job.read, [this](ObjectAttempt& self, const HttpEnd& end) { on_end(self, end); });
  attempt->job = id;
  attempt->is_hedge = is_hedge;
  attempt->is_alone = job.live.empty();
  for (const auto& other : job.live) other->is_alone = false;
  attempt->sent = now;
  attempt->last_byte = now;
  attempt->exchange.sink = attempt.get();
  attempt->keys = requests_.describe(job.read, job.query, job.place, attempt->exchange);
  if (!is_hedge) {
    ++job.attempts;
    job.hedges = 0;
  }
  counts_.sent(job.query != nullptr);
  latencies_.note_sent();
  in_flight_.insert(attempt.get());
  in_flight_count_.store(static_cast<unsigned>(in_flight_.size()), std::memory_order_relaxed);
  http_.start(attempt->exchange);
  job.live.push_back(std::move(attempt));
}

void ObjectTransfers::remove(ObjectAttempt& attempt) {
  http_.cancel(attempt.exchange);
  in_flight_.erase(&attempt);
  in_flight_count_.store(static_cast<unsigned>(in_flight_.size()), std::memory_order_relaxed);
  std::vector<std::unique_ptr<ObjectAttempt>>& live = jobs_.at(attempt.job)->live;
  const auto found = std::find_if(live.begin(), live.end(), [&](const auto& one) { return one.get() == &attempt; });
  ended_.push_back(std::move(*found));  // its on_end may be running
  live.erase(found);
}

void ObjectTransfers::on_end(ObjectAttempt& attempt, const HttpEnd& end) {
  const JobId id = attempt.job;
  Job& job = *jobs_.at(id);
  remove(attempt);
  counts_.received(attempt.received());
  ObjectAnswer answer = attempt.conclude(end);
  if (answer.never_connected) answer.host = host_of(attempt.exchange.url);
  answer.may_have_to_pay = !options_.requester_pays && !options_.no_sign_request;
  if (job.query != nullptr && answer.status == 404 && answer.code.empty()) answer.code = "NoSuchBucket";
  if (attempt.is_unpacked() && !job.has_taken_packed) {
    counts_.answered(RequestCounts::Answer::kRefused);
    if (!job.live.empty()) return;  // its sibling goes on
    job.has_taken_packed = true;
    requests_.take_packed();
    return try_at_once(id, job);
  }
  if (const std::optional<Error> wrong = attempt.mismatch(what(job))) {
    counts_.answered(RequestCounts::Answer::kRefused);
    finish(id, tl::unexpected<Error>(*wrong));
    return;
  }
  if (attempt.is_told_by_time()) tells_by_time_ = true;
  if (attempt.is_too_young()) {
    answer.is_broken = true;
    answer.trouble = "it was written just now, and the store names no ETag";
    answer.retry_after = std::chrono::seconds(2);
  }
  if (job.query != nullptr) requests_.note_clock(answer);
  // An answer to a HEAD does not say why.
  if (answer.status == 403 && answer.code.empty() && requests_.is_clock_refused(answer)) {
    answer.code = "RequestTimeTooSkewed";
  }
  // Nothing else is wrong all at once with HEADs of a bucket that was read.
  const bool is_head = job.read != nullptr && job.read->length == 0;
  const bool has_token = attempt.keys != nullptr && !attempt.keys->keys.session_token.bytes().empty();
  if (is_head && answer.status == 400 && answer.code.empty() && answer.region.empty() && has_succeeded_ && has_token) {
    answer.code = "ExpiredToken";
  }
  const Verdict verdict = judge(answer);
  counts_.answered(outcome_of(verdict, answer));
  has_answered_ = has_answered_ || answer.status != 0;
  if (verdict == Verdict::kDone) {
    on_success(id, job, attempt);
    return;
  }
  if (verdict == Verdict::kSlowDown && !answer.never_connected) {
    window_.on_slow_down(Clock::now());
    note_pace();
  }
  job.last_error = error_of(answer, what(job));
  if (verdict == Verdict::kFail) {
    finish(id, tl::unexpected<Error>(*job.last_error));
  } else if (job.live.empty()) {  // else its sibling goes on
    on_trouble(id, job, answer, attempt.keys);
  }
}

void ObjectTransfers::on_success(JobId id, Job& job, ObjectAttempt& attempt) {
  const Clock::time_point now = Clock::now();
  note_pace();
  has_succeeded_ = true;
  if (job.query == nullptr) {
    window_.on_done(now, now - attempt.sent, waited_for_.empty() && ahead_.empty());
    latencies_.note(now - attempt.sent);
    counts_.took(now - attempt.sent);
    if (latencies_.count() % kPublishEvery == 1) publish_latencies();
    job.read->found = attempt.found();
  } else {
    window_.on_page(now, now - attempt.sent);
    job.query->body = std::move(attempt.text());
    counts_.received(job.query->body.size());
  }
  if (attempt.is_hedge) counts_.hedge_won();
  finish(id, {});
}

// Once when it begins and once when it ends: a store that is overloaded refuses thousands.
void ObjectTransfers::note_pace() {
  if (std::exchange(is_slowed_, window_.is_recovering()) == window_.is_recovering()) return;
  if (is_slowed_) {
    io::log_warning(
        "{}: the store asks to slow down; at most {} requests are in flight now, or fewer if that is "
        "still too many",
        name_, window_.limit());
  } else {
    io::log_info("{}: the store takes {} requests at once again", name_, window_.limit());
  }
}

void ObjectTransfers::publish_latencies() {
  p50_us_.store(as_us(latencies_.percentile(50)), std::memory_order_relaxed);
  p95_us_.store(as_us(latencies_.percentile(95)), std::memory_order_relaxed);
  p99_us_.store(as_us(latencies_.percentile(99)), std::memory_order_relaxed);
}

void ObjectTransfers::on_trouble(JobId id, Job& job, const ObjectAnswer& answer, const KeyKeeper::KeysPtr& keys) {
  switch (judge(answer)) {
    case Verdict::kTryAgain:
      return try_later(id, job, answer, true);
    case Verdict::kSlowDown:
      // A store that has never answered may be a name that was mistyped: nobody waits a minute for that.
      return try_later(id, job, answer, answer.never_connected && !has_answered_);
    case Verdict::kStoresClock:
      if (std::exchange(job.has_set_clock, true) || !requests_.set_clock(answer)) break;
      return try_at_once(id, job);
    case Verdict::kOtherRegion:
      if (!std::exchange(job.has_changed_region, true)) {
        if (!requests_.change_region(answer.region)) break;
        return try_at_once(id, job);
      }
      // It was the right one. A HEAD's answer does not say what else is wrong: the token may have expired.
      [[fallthrough]];
    case Verdict::kNewKeys:
      // A token of a store that was read: its keys were right. Others are looked for once.
      job.waits_for_token = has_succeeded_ && is_about_token(answer);
      if (keys == nullptr || (std::exchange(job.has_renewed_keys, true) && !job.waits_for_token)) break;
      return renew_keys(id, keys);
    case Verdict::kFollow:
      job.place = requests_.place_of(answer.location);
      if (job.place.empty() || ++job.follows > kFollowsMax) break;
      return try_at_once(id, job);
    case Verdict::kDone:
    case Verdict::kFail:
      break;
  }
  finish(id, tl::unexpected<Error>(*job.last_error));
}

void ObjectTransfers::try_later(JobId id, Job& job, const ObjectAnswer& answer, bool is_objects_own) {
  if (is_objects_own) ++job.failures;
  const Clock::time_point now = Clock::now();
  const milliseconds pause = backoff(options_.tuning, job.attempts, answer.retry_after, random_);
  if (job.failures >= options_.tuning.attempts_max || now + pause - job.began > options_.tuning.give_up_after) {
    Error error = *job.last_error;
    error.context += fmt::format(" ({} attempts)", job.attempts);
    finish(id, tl::unexpected<Error>(std::move(error)));
    return;
  }
  io::log_debug("{}; tried again in {} ms", job.last_error->context, pause.count());
  timers_.emplace(now + pause, id);
}

void ObjectTransfers::try_at_once(JobId id, const Job& job) {
  counts_.retried();
  (job.waits ? waited_for_ : ahead_).push_front(id);  // it has waited for its turn once
}

void ObjectTransfers::renew_keys(JobId id, const KeyKeeper::KeysPtr& refused) {
  keeper_->renew(refused, [this, id, refused] {
    MutexLock lock(mutex_);
    renewed_.emplace_back(id, refused);
    http_.wake();
  });
}

void ObjectTransfers::finish(JobId id, io::Status status) {
  Job& job = *jobs_.at(id);
  while (!job.live.empty()) remove(*job.live.back());
  const std::unique_ptr<Job> done = std::move(jobs_.at(id));
  jobs_.erase(id);
  if (done->read != nullptr && !done->waits) known_.erase(done->read->known_as);
  if (!status && status.error().code == ErrorCode::kStale) counts_.found_stale();
  if (!status && status.error().code != ErrorCode::kStale && status.error().code != ErrorCode::kNotFound &&
      status.error().code != ErrorCode::kCancelled) {
    counts_.failed();
  }
  if (done->read != nullptr) {
    done->read->on_done(*done->read, std::move(status));
  } else {
    done->query->on_done(*done->query, std::move(status));
  }
}

}  // namespace headrace::cache
