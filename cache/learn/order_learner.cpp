// SPDX-License-Identifier: Apache-2.0
// Opens arrive under the mutex and only change the tracks. The search thread takes a copy of a track's window, tries
// candidates without the mutex, and brings the result back; the seed thread does the same with the search that takes
// minutes, so that it never stands in the way of the quick one.
#include "headrace/cache/order_learner.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>

#include "headrace/cache/learn/companions.h"
#include "headrace/cache/learn/cpu_allowance.h"
#include "headrace/cache/learn/parts_in_turn.h"
#include "headrace/cache/learn/records.h"
#include "headrace/cache/learn/track.h"
#include "headrace/io/log.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {
namespace {

using Clock = std::chrono::steady_clock;

// So many opens tell which part is being read.
constexpr std::size_t kRecentOpens = 32;
constexpr std::uint64_t kLeastOpens = 16;
constexpr std::uint64_t kMixedOpens = 512;  // the windows of a few ranks

// Of each part, as for training, validation and test; trying the candidates over one takes as long as over all samples.
constexpr std::size_t kListsMost = 4;
// Until the next search most of them prove to be no lists.
constexpr std::size_t kOfferedMost = 32;

// A part smaller than this share of the whole (one class of many) is no data set of its own. Nor are more than
// kMaxParts, which are classes.
constexpr std::uint64_t kLeastShare = 50;

[[nodiscard]] std::vector<Track> make_tracks(const OrderLearnerOptions& options) {
  std::vector<SampleRange> parts = options.parts;
  std::erase_if(parts, [&](const SampleRange& part) {
    return part.count == 0 || part.count * kLeastShare < options.sample_count;
  });
  if (parts.size() > OrderLearner::kMaxParts) parts.clear();
  std::ranges::sort(parts, std::ranges::greater{}, &SampleRange::count);
  std::vector<Track> tracks;
  tracks.emplace_back(SampleRange{.first = 0, .count = options.sample_count});
  for (const SampleRange& part : parts) {
    if (part.count < options.sample_count) tracks.emplace_back(part);
  }
  return tracks;
}

// Of the tracks, the first of which is the whole.
[[nodiscard]] Companions companions_of(const std::vector<Track>& tracks) {
  std::vector<SampleRange> parts;
  for (std::size_t i = 1; i < tracks.size(); ++i) parts.push_back(tracks[i].range());
  return Companions(parts);
}

[[nodiscard]] std::optional<Match> named(std::optional<Match> match, const char* name) {
  if (match) match->found_by = name;
  return match;
}

[[nodiscard]] std::optional<Match> try_predicted(const Track::Request& request, SearchTask task) {
  task.least_bits = kPredictionBits;
  task.is_predicted = true;
  if (auto match = try_at_start(request.predicted, task)) return named(std::move(match), "prediction");
  if (request.opens.size() >= 512) return std::nullopt;
  return named(try_anywhere(request.predicted, task), "prediction");
}

// Orders over what the epoch before read: the same again, or where nothing else is read, what scripts use over these.
[[nodiscard]] std::optional<Match> try_over_set(const Track::Request& request, const SearchTask& task,
                                                bool may_try_more) {
  if (!request.read_before) return std::nullopt;
  if (auto match = try_replay(request.read_before, task)) return named(std::move(match), "replay");
  if (!may_try_more || !request.reads_the_same || request.read_before->size() == request.n) return std::nullopt;
  auto sorted = std::make_shared<std::vector<SampleIndex>>(*request.read_before);
  std::ranges::sort(*sorted);
  std::vector<CandidateGroup> groups = small_candidates();
  for (CandidateGroup& group : groups) group.base = sorted;
  return named(try_at_start(groups, task), "set that is read");
}

// Each takes as long as all that is tried over the samples as listed, so they are looked at for few window sizes.
[[nodiscard]] bool is_time_for_lists(const Track::Request& request) {
  constexpr std::size_t kSizes[] = {16, 32, 64, 512};
  return std::ranges::any_of(kSizes, [&](std::size_t size) { return request.opened >= size && request.tried < size; });
}

// What scripts use, over the lists that the job has read. Not the list from its first to its last: classes or clips
// that are shuffled as blocks would look like it. It is found as what the epoch before has read.
[[nodiscard]] std::optional<Match> try_over_lists(const std::vector<Indices>& lists, const SearchTask& task) {
  std::vector<CandidateGroup> groups = small_candidates();
  std::erase_if(groups, [](const CandidateGroup& group) { return group.spec == "sequential"; });
  for (const Indices& list : lists) {
    for (CandidateGroup& group : groups) group.base = list;
    if (auto match = try_at_start(groups, task)) return named(std::move(match), "list");
  }
  return std::nullopt;
}

// What follows from the orders known before: microseconds to milliseconds.
[[nodiscard]] std::optional<Match> try_known(const Track::Request& request, SearchTask task,
                                             const Records::Candidates& recorded) {
  if (auto match = try_predicted(request, task)) return match;
  task.least_bits = kUsualBits;
  if (auto match = try_links(request.links, request.epochs_since_link, task)) return named(std::move(match), "link");
  return named(try_at_start(recorded.specs, task), "record");
}

// What scripts use, in the sequence of the cost: tens of milliseconds. The slow ones run at few window sizes only: a
// reader may open hundreds of samples between two attempts.
[[nodiscard]] std::optional<Match> try_usual(const Track::Request& request, SearchTask task,
                                             const Records::Candidates& recorded) {
  const auto reached = [&](std::size_t least) { return request.opened >= least && request.tried < least; };
  task.least_bits = kUsualBits;
  if (auto match = try_at_start(small_candidates(), task)) return named(std::move(match), "small seed");
  if (auto match = try_at_start(recorded.epochs, task)) return named(std::move(match), "record");
  if (reached(64) || reached(512)) {
    if (auto match = try_at_start(whole_list_candidates(), task)) return named(std::move(match), "constant seed");
  }
  if (reached(512)) {
    if (auto match = try_anywhere(resumed_candidates(), task)) return named(std::move(match), "small seed");
  }
  return std::nullopt;
}

[[nodiscard]] unsigned search_threads(unsigned asked) {
  return asked != 0 ? asked : std::max(1U, std::thread::hardware_concurrency() / 2);
}

}  // namespace

class OrderLearner::Impl {
 public:
  explicit Impl(OrderLearnerOptions options)
      : options_(std::move(options)),
        allowance_(options_.fruitless_share, options_.fruitless_seconds),
        tracks_(make_tracks(options_)),
        companions_(companions_of(tracks_)),
        lists_(tracks_.size()) {
    for (const Track& track : tracks_) records_.emplace_back(options_.record_folder, track.range());
    search_thread_ = std::thread([this] { search_loop(); });
    if (options_.search_all_seeds) seed_thread_ = std::thread([this] { seed_loop(); });
  }

  ~Impl() {
    {
      io::MutexLock lock(mutex_);
      stopping_ = true;
      cancelled_ = true;
      seed_search_over_ = true;
      changed_.notify_all();
    }
    search_thread_.join();
    if (seed_thread_.joinable()) seed_thread_.join();
  }

  void on_opens(std::span<const SampleIndex> samples);
  void offer_list(SamplesWithin within);
  void on_events_lost();
  void give_lock_up();
  void learn_anew();
  [[nodiscard]] std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  [[nodiscard]] std::optional<Lock> lock() const;
  [[nodiscard]] std::vector<SampleIndex> opens_of_epoch() const;
  [[nodiscard]] std::optional<SampleIndex> next_unseen();
  [[nodiscard]] std::vector<SampleIndex> take_left_out();
  [[nodiscard]] State state() const;
  void wait_idle();

 private:
  // What one of the two threads works on, without the mutex.
  struct Job {
    std::deque<SamplesWithin> offered = {};  // lists that are to be read; empty: it is a search, of what follows
    std::size_t track = 0;
    Track::Request request = {};
    std::vector<SampleIndex> finished = {};  // an epoch to be recorded
    std::vector<Indices> lists = {};         // the last one first
  };
  // Block until there is something to do; nullopt at the end.
  [[nodiscard]] std::optional<Job> next_search();
  [[nodiscard]] std::optional<Job> next_seed_search();
  void search_loop();
  void search(const Job& job);
  void read_lists(const std::deque<SamplesWithin>& offered);
  void tell_curtailed();
  void seed_loop();
  [[nodiscard]] std::optional<Match> search_seeds(const Job& job);
  void show_search(const SeedSearch* search, Clock::time_point began);
  void link_to_stream(const Job& job, const std::string& spec);
  void follow_active() HEADRACE_REQUIRES(mutex_);
  // What is opened with the samples of the track; null: they are opened alone.
  [[nodiscard]] const Companions::Together* companions_of_track(std::size_t index) const HEADRACE_REQUIRES(mutex_);
  // The active track's samples, told in its indices, with their companions, in the data set's.
  [[nodiscard]] std::vector<SampleIndex> with_companions(const std::vector<SampleIndex>& samples) const
      HEADRACE_REQUIRES(mutex_);
  void make_active(std::size_t index) HEADRACE_REQUIRES(mutex_);
  void count_generations() HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] std::string whole_spec(const Track& track) const HEADRACE_REQUIRES(mutex_);

  const OrderLearnerOptions options_;
  std::deque<Records> records_;  // one for each track; synchronise themselves
  CpuAllowance allowance_;       // the search thread's
  bool told_curtailed_ = false;  // the search thread's
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> seed_search_over_ = false;  // the search through all seeds is to end
  std::atomic<std::uint64_t> generation_ = 0;

  mutable io::Mutex mutex_;
  io::CondVar changed_;
  std::vector<Track> tracks_ HEADRACE_GUARDED_BY(mutex_);  // the whole first; their number is constant
  Companions companions_ HEADRACE_GUARDED_BY(mutex_);
  std::vector<SampleIndex> unseen_companions_ HEADRACE_GUARDED_BY(mutex_);  // of the last one that next_unseen() gave
  std::deque<SamplesWithin> offered_ HEADRACE_GUARDED_BY(mutex_);           // lists that are to be read
  std::vector<std::deque<Indices>> lists_ HEADRACE_GUARDED_BY(mutex_);      // of each track, the last one first
  std::size_t active_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t mixed_opens_ HEADRACE_GUARDED_BY(mutex_) = 0;  // since one part had nearly all of the last ones
  std::uint64_t track_generations_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::array<SampleIndex, kRecentOpens> recent_ HEADRACE_GUARDED_BY(mutex_) = {};  // a ring
  std::uint64_t opens_ HEADRACE_GUARDED_BY(mutex_) = 0;
  bool stopping_ HEADRACE_GUARDED_BY(mutex_) = false;
  bool searching_ HEADRACE_GUARDED_BY(mutex_) = false;
  bool searching_seeds_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::size_t seed_track_ HEADRACE_GUARDED_BY(mutex_) = SIZE_MAX;        // that the seeds are, or were, searched for
  const SeedSearch* seed_search_ HEADRACE_GUARDED_BY(mutex_) = nullptr;  // the one under way
  Clock::time_point seed_search_began_ HEADRACE_GUARDED_BY(mutex_);
  State state_ HEADRACE_GUARDED_BY(mutex_);

  std::thread search_thread_;
  std::thread seed_thread_;
};

void OrderLearner::Impl::on_opens(std::span<const SampleIndex> samples) {
  io::MutexLock lock(mutex_);
  for (const SampleIndex sample : samples) {
    if (sample >= options_.sample_count) continue;
    recent_[opens_++ % recent_.size()] = sample;
    if (companions_.on_open(sample)) ++generation_;
    follow_active();
    for (std::size_t i = active_ == 0 ? 0 : 1; i < tracks_.size(); ++i) {
      const SampleRange& range = tracks_[i].range();
      if (range.contains(sample)) tracks_[i].on_open(sample - range.first);
    }
  }
  count_generations();
  if (tracks_[active_].wants_search() || tracks_[active_].wants_seed_search()) changed_.notify_all();
}

void OrderLearner::Impl::on_events_lost() {
  io::MutexLock lock(mutex_);
  for (Track& track : tracks_) track.on_events_lost();
}

void OrderLearner::Impl::give_lock_up() {
  io::MutexLock lock(mutex_);
  if (companions_of_track(active_) != nullptr) {
    companions_.give_up();  // rather than the order of those that lead
    ++generation_;
  } else {
    tracks_[active_].give_lock_up();
  }
  count_generations();
}

void OrderLearner::Impl::learn_anew() {
  io::MutexLock lock(mutex_);
  for (Track& track : tracks_) track.learn_anew();
  companions_ = companions_of(tracks_);
  count_generations();
}

// The part being read is the one that has nearly all of the last opens. While ranks go over from one to another at
// different times it stays; opens that go on to be of several parts are of the whole.
void OrderLearner::Impl::follow_active() {
  const std::uint64_t count = std::min<std::uint64_t>(opens_, recent_.size());
  if (count < kLeastOpens) return;
  ++mixed_opens_;
  for (std::size_t i = 1; i < tracks_.size(); ++i) {
    const SampleRange& range = tracks_[i].range();
    const Companions::Together* const together = companions_of_track(i);
    const auto inside = std::ranges::count_if(std::span(recent_).first(count), [&](SampleIndex sample) {
      return together ? together->contains(sample) : range.contains(sample);
    });
    if (static_cast<std::uint64_t>(inside) * 10 >= count * 9) {
      mixed_opens_ = 0;
      return make_active(i);
    }
  }
  if (mixed_opens_ >= kMixedOpens) make_active(0);
}

const Companions::Together* OrderLearner::Impl::companions_of_track(std::size_t index) const {
  const auto& together = companions_.together();
  return together && index != 0 && together->leader == tracks_[index].range() ? &*together : nullptr;
}

std::vector<SampleIndex> OrderLearner::Impl::with_companions(const std::vector<SampleIndex>& samples) const {
  const Companions::Together* const together = companions_of_track(active_);
  std::vector<SampleIndex> all;
  for (const SampleIndex local : samples) {
    const auto sample = static_cast<SampleIndex>(tracks_[active_].range().first + local);
    together ? together->append(sample, all) : all.push_back(sample);
  }
  return all;
}

void OrderLearner::Impl::make_active(std::size_t index) {
  if (index == active_) return;
  if (index == 0) tracks_[0].on_events_lost();  // it was not told of what the parts were
  active_ = index;
  ++generation_;
}

void OrderLearner::Impl::count_generations() {
  std::uint64_t sum = 0;
  for (const Track& track : tracks_) sum += track.generation();
  if (sum == track_generations_) return;
  track_generations_ = sum;
  ++generation_;
}

std::optional<OrderLearner::Impl::Job> OrderLearner::Impl::next_search() {
  io::MutexLock lock(mutex_);
  while (!stopping_ && !tracks_[active_].wants_search()) changed_.wait(lock);
  if (stopping_) return std::nullopt;
  searching_ = true;
  if (!offered_.empty()) return Job{.offered = std::exchange(offered_, {})};
  Track& track = tracks_[active_];
  return Job{.track = active_,
             .request = track.take_request(),
             .finished = track.take_finished_epoch(),
             .lists = {lists_[active_].begin(), lists_[active_].end()}};
}

void OrderLearner::Impl::search_loop() {
  pthread_setname_np(pthread_self(), "hr-order");
  while (const std::optional<Job> job = next_search()) job->offered.empty() ? search(*job) : read_lists(job->offered);
}

void OrderLearner::Impl::offer_list(SamplesWithin within) {
  io::MutexLock lock(mutex_);
  if (offered_.size() == kOfferedMost) offered_.pop_front();
  offered_.push_back(std::move(within));
}

void OrderLearner::Impl::read_lists(const std::deque<SamplesWithin>& offered) {
  std::vector<SampleRange> ranges;
  {
    io::MutexLock lock(mutex_);
    for (const Track& track : tracks_) ranges.push_back(track.range());
  }
  for (const SamplesWithin& within : offered) {
    for (std::size_t track = 0; track < ranges.size() && !cancelled_; ++track) {
      std::vector<SampleIndex> samples = within(ranges[track]);
      if (samples.empty()) continue;
      for (SampleIndex& sample : samples) sample -= ranges[track].first;
      io::MutexLock lock(mutex_);
      std::deque<Indices>& lists = lists_[track];
      lists.push_front(std::make_shared<const std::vector<SampleIndex>>(std::move(samples)));
      if (lists.size() > kListsMost) lists.pop_back();
    }
  }
  io::MutexLock lock(mutex_);
  searching_ = false;
  changed_.notify_all();
}

// Once, until something is found: from then on the share is used up and there again every few seconds.
void OrderLearner::Impl::tell_curtailed() {
  if (std::exchange(told_curtailed_, true)) return;
  io::log_info(
      "order: nothing was found in {:.0f} s of CPU; what scripts use is tried with {:.0f} % of a core from now on",
      options_.fruitless_seconds, options_.fruitless_share * 100);
}

void OrderLearner::Impl::search(const Job& job) {
  const std::uint64_t began = thread_cpu_ns();
  const Track::Request& request = job.request;
  Records& records = records_[job.track];
  if (!job.finished.empty()) records.keep_epoch(job.finished);
  const SearchTask task{.n = request.n, .opens = &request.opens, .cancelled = &cancelled_};
  SearchTask usual_task = task;
  usual_task.least_bits = kUsualBits;
  std::optional<PreparedMatch> prepared;
  const Records::Candidates recorded = records.candidates();
  const bool may_try_more = allowance_.has_any(Clock::now());
  if (!may_try_more) tell_curtailed();
  std::optional<Match> match = try_known(request, task, recorded);
  if (!match) match = try_over_set(request, usual_task, may_try_more);
  if (!match && may_try_more) match = try_usual(request, task, recorded);
  if (!match && may_try_more && is_time_for_lists(request)) match = try_over_lists(job.lists, usual_task);
  const bool found = match.has_value();
  if (match) {
    io::log_info("order: {} epoch {} fits {} opens by {:.0f} bits ({})", match->spec, match->epoch, request.opened,
                 match->fit.bits, match->found_by);
    if (!match->base) records.keep_spec(match->spec);
    prepared = prepare_match(std::move(*match), request.n);
  }
  const double spent_seconds = static_cast<double>(thread_cpu_ns() - began) / 1e9;
  if (!found) allowance_.spend(spent_seconds);
  if (found) told_curtailed_ = false;
  io::MutexLock lock(mutex_);
  state_.search_cpu_seconds += spent_seconds;
  state_.searches_curtailed += may_try_more ? 0 : 1;
  Track& track = tracks_[job.track];
  if (!prepared) {
    track.on_no_match(request);
  } else if (track.on_match(request, std::move(*prepared)) && seed_track_ == job.track) {
    seed_search_over_ = true;  // nobody needs to know any more
  }
  count_generations();
  searching_ = false;
  changed_.notify_all();
}

std::optional<OrderLearner::Impl::Job> OrderLearner::Impl::next_seed_search() {
  io::MutexLock lock(mutex_);
  while (!stopping_ && !tracks_[active_].wants_seed_search()) changed_.wait(lock);
  if (stopping_) return std::nullopt;
  searching_seeds_ = true;
  seed_track_ = active_;
  seed_search_over_ = false;
  return Job{.track = active_, .request = tracks_[active_].take_seed_request(), .finished = {}};
}

void OrderLearner::Impl::seed_loop() {
  pthread_setname_np(pthread_self(), "hr-order-seeds");
  while (const std::optional<Job> job = next_seed_search()) {
    const std::optional<Match> match = search_seeds(*job);
    if (match) link_to_stream(*job, match->spec);
    io::MutexLock lock(mutex_);
    searching_seeds_ = false;
    changed_.notify_all();
  }
}

std::optional<Match> OrderLearner::Impl::search_seeds(const Job& job) {
  const Track::Request& request = job.request;
  SeedSearch search({.n = request.n, .opens = &request.opens, .cancelled = &seed_search_over_},
                    {.threads = search_threads(options_.search_threads),
                     .seeds = options_.search_seeds,
                     .early_outputs = options_.link_outputs});
  io::log_info("order: searching all seeds for the order of {} samples ({})", request.n, SeedScan::instruction_set());
  const Clock::time_point began = Clock::now();
  show_search(&search, began);
  std::optional<Match> match = search.run();
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  std::optional<PreparedMatch> prepared;
  if (match) {
    io::log_info("order: {} found among {} seeds in {:.1f} s", match->spec, search.seeds_tested(), seconds);
    prepared = prepare_match(*match, request.n);
  }
  show_search(nullptr, began);
  io::MutexLock lock(mutex_);
  state_.seeds_tested += search.seeds_tested();
  state_.seeds_per_second = static_cast<double>(search.seeds_tested()) / std::max(seconds, 1e-9);
  state_.search_cpu_seconds += search.cpu_seconds();
  // A seed that is found once its epoch is over is as good as none: it tells of no other, but for its link.
  Track& track = tracks_[job.track];
  const bool is_used = prepared && track.on_match(request, std::move(*prepared));
  if (!is_used && !seed_search_over_) track.on_no_seed(request);
  count_generations();
  lock.unlock();
  if (is_used) records_[job.track].keep_spec(match->spec);
  return match;
}

void OrderLearner::Impl::show_search(const SeedSearch* search, Clock::time_point began) {
  io::MutexLock lock(mutex_);
  seed_search_ = search;
  seed_search_began_ = began;
}

void OrderLearner::Impl::link_to_stream(const Job& job, const std::string& spec) {
  const std::optional<std::uint32_t> seed = fresh_seed_of(spec);
  if (!seed) return;
  find_links(*seed, options_.link_outputs, cancelled_, [&](const StreamLink& link) {
    io::log_info("order: the seed is output {} of manual_seed({}), a guess until the next epoch: chance gives {:.2g}",
                 link.output, link.seed, links_by_chance(options_.link_outputs));
    io::MutexLock lock(mutex_);
    tracks_[job.track].on_link(link, job.request.epoch_number);
  });
}

// Over what is read of the part; the spec says so in words that make_order() does not take.
[[nodiscard]] Result<std::unique_ptr<Order>> order_over_set(const Track& track) {
  const Track::Lock& lock = *track.lock();
  auto samples = std::make_shared<std::vector<SampleIndex>>(*lock.base);
  for (SampleIndex& sample : *samples) sample += track.range().first;
  auto inner = make_order(lock.spec, {.sample_count = samples->size(), .find_sample = nullptr});
  if (!inner) return inner;
  const bool is_replay = lock.spec == "sequential";
  std::string spec = is_replay ? fmt::format("replay:samples={}", samples->size())
                               : fmt::format("torch-subset:read={},of={}", samples->size(), lock.spec);
  return std::make_unique<MappedOrder>(std::move(spec), std::move(samples), std::move(*inner));
}

// What make_order takes for the whole data set.
std::string OrderLearner::Impl::whole_spec(const Track& track) const {
  const SampleRange& range = track.range();
  std::string spec = track.lock()->order_spec();
  if (range.count == options_.sample_count) return spec;
  return fmt::format("torch-subset:range={}:{},of={}", range.first, range.first + range.count, spec);
}

std::optional<OrderLearner::Lock> OrderLearner::Impl::lock() const {
  io::MutexLock guard(mutex_);
  const Track& track = tracks_[active_];
  if (!track.lock()) return std::nullopt;
  auto order = track.lock()->base
                   ? order_over_set(track)
                   : make_order(whole_spec(track), {.sample_count = options_.sample_count, .find_sample = nullptr});
  if (!order) return std::nullopt;
  const Track::Lock& found = *track.lock();
  const Companions::Together* const together = companions_of_track(active_);
  if (together) *order = order_together(std::move(*order), *together);
  return Lock{.order = std::move(*order),
              .epoch = found.epoch,
              .position = found.position * (together ? 1 + together->others.size() : 1),
              .known_epochs = found.known_epochs,
              .confidence_bits = found.bits,
              .found_by = found.found_by,
              .in_turn = together ? nullptr : parts_in_turn(tracks_, active_, options_.sample_count),
              .in_turn_version = track_generations_};
}

std::vector<SampleIndex> OrderLearner::Impl::opens_of_epoch() const {
  io::MutexLock lock(mutex_);
  return with_companions(tracks_[active_].opens_of_epoch());
}

std::optional<SampleIndex> OrderLearner::Impl::next_unseen() {
  io::MutexLock lock(mutex_);
  if (opens_ == 0) return std::nullopt;
  if (unseen_companions_.empty()) {
    const auto local = tracks_[active_].next_unseen();
    if (!local) return std::nullopt;
    unseen_companions_ = with_companions({*local});
    std::ranges::reverse(unseen_companions_);
  }
  const SampleIndex next = unseen_companions_.back();
  unseen_companions_.pop_back();
  return next;
}

std::vector<SampleIndex> OrderLearner::Impl::take_left_out() {
  io::MutexLock lock(mutex_);
  return with_companions(tracks_[active_].take_left_out());
}

OrderLearner::State OrderLearner::Impl::state() const {
  io::MutexLock lock(mutex_);
  State state = state_;
  const Track& active = tracks_[active_];
  state.opens = opens_;
  state.epochs_seen = active.epoch_number() + 1;
  state.opens_to_lock = active.lock() ? active.lock()->opens : 0;
  for (const Track& track : tracks_) {
    state.locks += track.locks();
    state.locks_dropped += track.drops();
  }
  state.searching_all_seeds = searching_seeds_;
  if (seed_search_ != nullptr) {
    const double seconds = std::chrono::duration<double>(Clock::now() - seed_search_began_).count();
    state.search_seeds_tested = seed_search_->seeds_tested();
    state.search_seeds = seed_search_->seeds_to_test();
    state.seeds_tested += state.search_seeds_tested;
    state.seeds_per_second = static_cast<double>(state.search_seeds_tested) / std::max(seconds, 1e-3);
  }
  return state;
}

void OrderLearner::Impl::wait_idle() {
  io::MutexLock lock(mutex_);
  while (searching_ || searching_seeds_ || tracks_[active_].wants_search() ||
         (options_.search_all_seeds && tracks_[active_].wants_seed_search())) {
    changed_.wait(lock);
  }
}

OrderLearner::OrderLearner(OrderLearnerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
OrderLearner::~OrderLearner() = default;
void OrderLearner::on_opens(std::span<const SampleIndex> samples) {
  impl_->on_opens(samples);
}
void OrderLearner::offer_list(SamplesWithin within) {
  impl_->offer_list(std::move(within));
}
void OrderLearner::on_events_lost() {
  impl_->on_events_lost();
}
void OrderLearner::give_lock_up() {
  impl_->give_lock_up();
}
void OrderLearner::learn_anew() {
  impl_->learn_anew();
}
std::uint64_t OrderLearner::generation() const {
  return impl_->generation();
}
std::optional<OrderLearner::Lock> OrderLearner::lock() const {
  return impl_->lock();
}
std::vector<SampleIndex> OrderLearner::opens_of_epoch() const {
  return impl_->opens_of_epoch();
}
std::optional<SampleIndex> OrderLearner::next_unseen() {
  return impl_->next_unseen();
}
std::vector<SampleIndex> OrderLearner::take_left_out() {
  return impl_->take_left_out();
}
OrderLearner::State OrderLearner::state() const {
  return impl_->state();
}
void OrderLearner::wait_idle() {
  impl_->wait_idle();
}

}  // namespace headrace::cache
