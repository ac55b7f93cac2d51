// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/internal/pusher.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include <pthread.h>
#include <sys/stat.h>

#include "headrace/cache/chunk.h"
#include "headrace/fuse/internal/tree.h"
#include "headrace/io/log.h"

namespace headrace::fuse {
using cache::SampleIndex;
using io::MutexLock;

namespace {

constexpr std::uint64_t kPageBytes = 4096;
// 128 fetches keep a device's queue full and hide 20 ms of latency at 5 000 samples/s; 64 MiB bounds what they hold.
constexpr std::uint64_t kFetchesMax = 128;
constexpr std::uint64_t kFetchBytesMax = 64 << 20;
// Larger samples are fetched and pushed in pieces, of the size in which the store holds them.
constexpr std::uint64_t kPieceBytesMax = cache::kChunkBytes;
// Room for samples that are open but not read yet: released, still in the page cache. See PusherOptions::budget_bytes.
constexpr std::uint64_t kGraceBytesMax = 64 << 20;
constexpr std::uint64_t kGraceShare = 4;

std::vector<std::uint32_t> page_cache_sizes(const cache::Catalog& catalog) {
  std::vector<std::uint32_t> sizes(catalog.sample_count());
  for (SampleIndex sample = 0; sample < sizes.size(); ++sample) {
    const std::uint64_t bytes = catalog.size_bytes(catalog.sample_entry(sample));
    const std::uint64_t pages = (bytes + kPageBytes - 1) / kPageBytes;
    const std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
    sizes[sample] = static_cast<std::uint32_t>(std::min(pages * kPageBytes, most));
  }
  return sizes;
}

}  // namespace

Pusher::Pusher(cache::Store& store, PusherOptions options)
    : store_(store),
      catalog_(store.catalog()),
      root_(std::move(options.root)),
      sizes_(page_cache_sizes(catalog_)),
      total_bytes_(std::accumulate(sizes_.begin(), sizes_.end(), std::uint64_t{0})),
      notes_(options.notes),
      given_order_(std::move(options.order)),
      budget_bytes_(options.budget_bytes) {
  MutexLock lock(mutex_);
  if (notes_.head->takeovers == 0) {
    make_plan(options.first_epoch, 0);
  } else {
    adopt_holdings();
    make_plan(notes_.head->epoch, notes_.head->position);
  }
}

// What another process pushed lies in the page cache still.
void Pusher::adopt_holdings() {
  for (SampleIndex sample = 0; sample < sizes_.size(); ++sample) {
    Holding& holding = notes_.holdings[sample];
    holding.released = false;
    if (!holding.held) continue;
    counters_.held_bytes += sizes_[sample];
    ++counters_.held_samples;
  }
}

void Pusher::start(std::shared_ptr<Session> session) {
  session_ = std::move(session);
  {
    MutexLock lock(mutex_);
    stopped_ = false;
  }
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "hr-push");
    run();
  });
}

void Pusher::request_stop() {
  MutexLock lock(mutex_);
  stop_ = true;
  work_.notify_all();
  finished_.notify_all();
}

bool Pusher::wait_stopped(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (!stopped_) {
    if (!finished_.wait_until(lock, deadline)) return stopped_;
  }
  return true;
}

void Pusher::join() {
  request_stop();
  if (thread_.joinable()) thread_.join();
}

void Pusher::run() {
  while (true) {
    std::optional<Fetch> arrived;
    {
      MutexLock lock(mutex_);
      while (!stop_ && fetched_.empty() && !can_fetch() && !must_trim()) work_.wait(lock);
      if (stop_) break;
      if (!fetched_.empty()) {
        arrived = std::move(fetched_.front());
        fetched_.pop_front();
      }
    }
    if (arrived) push(std::move(*arrived));
    evict_for(0);
    start_fetches();
  }
  MutexLock lock(mutex_);
  fetched_.clear();
  stopped_ = true;
  finished_.notify_all();
}

void Pusher::start_fetches() {
  while (true) {
    Fetch fetch;
    {
      MutexLock lock(mutex_);
      if (stop_ || !can_fetch()) return;
      const std::optional<SampleIndex> sample = next_fetch();
      if (!sample) {
        changed_ = false;
        if (is_full()) finished_.notify_all();
        return;
      }
      fetch = {.sample = *sample, .plan_generation = plan_generation_};
      ++in_flight_;
      in_flight_bytes_ += piece_bytes(*sample, 0);
    }
    read_piece(std::move(fetch));
  }
}

bool Pusher::can_fetch() const {
  return changed_ && plan_ && in_flight_ < kFetchesMax && in_flight_bytes_ < kFetchBytesMax;
}

// After the budget shrank: more is held than fits, and some of it may go.
bool Pusher::must_trim() const {
  return counters_.held_bytes > budget_bytes_ && !released_.empty();
}

bool Pusher::is_full() const {
  return !changed_ && in_flight_ == 0;
}

std::optional<SampleIndex> Pusher::next_fetch() {
  while (const std::optional<SampleIndex> sample = plan_->next_fetch()) {
    Holding& holding = notes_.holdings[*sample];
    holding.released = false;
    if (!holding.held && can_be_pushed(*sample)) return sample;
    plan_->on_fetched(*sample, holding.held);  // held: let go of earlier, but its room was not needed yet
  }
  return std::nullopt;
}

// Not symlinks out of the source, whose target is not the mount's, nor 4 GiB and more, which the plan cannot count.
bool Pusher::can_be_pushed(SampleIndex sample) const {
  return catalog_.is_file(catalog_.sample_entry(sample)) && sizes_[sample] < std::numeric_limits<std::uint32_t>::max();
}

std::uint64_t Pusher::piece_bytes(SampleIndex sample, std::uint64_t offset) const {
  const std::uint64_t size = catalog_.size_bytes(catalog_.sample_entry(sample));
  return std::min(size - offset, kPieceBytesMax);
}

void Pusher::read_piece(Fetch fetch) {
  const cache::EntryId entry = catalog_.sample_entry(fetch.sample);
  const std::uint64_t offset = fetch.offset;
  auto done = [self = shared_from_this(), fetch = std::make_shared<Fetch>(std::move(fetch))](Result<cache::View> view) {
    fetch->view = std::move(view);
    MutexLock lock(self->mutex_);
    if (self->stop_) return;
    self->fetched_.push_back(std::move(*fetch));
    self->work_.notify_one();
  };
  if (catalog_.size_bytes(entry) <= kPieceBytesMax) {
    store_.read_async(entry, std::move(done), cache::ReadHint::kAhead);
  } else {
    store_.read_range_async(entry, offset, kPieceBytesMax, std::move(done));
  }
}

void Pusher::push(Fetch fetch) {
  const std::uint64_t piece = piece_bytes(fetch.sample, fetch.offset);
  if (!fetch.view || fetch.view->bytes().size() < piece) return finish(fetch, false);
  if (fetch.offset == 0 && !make_room(fetch.sample)) return finish(fetch, false);
  if (const int failure = store_piece(fetch); failure != 0) {
    if (failure != ENODEV) io::log_warning("push of sample {}: {}", fetch.sample, std::strerror(failure));
    return finish(fetch, false);
  }
  fetch.offset += piece;
  fetch.view = cache::View{};
  if (fetch.offset < catalog_.size_bytes(catalog_.sample_entry(fetch.sample))) return read_piece(std::move(fetch));
  finish(fetch, true);
}

int Pusher::store_piece(const Fetch& fetch) {
  if (fetch.view->bytes().empty()) {  // an empty file: knowing its attributes is all
    make_known(fetch.sample);
    return 0;
  }
  const std::uint64_t inode = inode_of(catalog_.sample_entry(fetch.sample));
  const int failure = session_->store(inode, fetch.offset, fetch.view->bytes());
  if (failure != ENOENT) return failure;
  make_known(fetch.sample);
  return session_->store(inode, fetch.offset, fetch.view->bytes());
}

// A look at the file through the mount makes the kernel create the inode, or ask for attributes that went with an
// eviction: once, here, rather than when the reader opens it. lstat is no open, so the follower does not see it.
void Pusher::make_known(SampleIndex sample) const {
  struct stat ignored {};
  const std::filesystem::path path = root_ / catalog_.path(catalog_.sample_entry(sample));
  if (::lstat(path.c_str(), &ignored) != 0) io::log_debug("lstat {}: {}", path.string(), std::strerror(errno));
}

void Pusher::evict_for(std::uint64_t bytes) {
  while (const std::optional<SampleIndex> victim = pick_victim(bytes)) {
    [[maybe_unused]] const int ignored =  // ENOENT: the kernel has dropped the inode and with it the pages
        session_->invalidate(inode_of(catalog_.sample_entry(*victim)));
  }
}

// Counts the sample as held from here on, and evicts what it takes the place of. False: there is no room to be had.
bool Pusher::make_room(SampleIndex sample) {
  evict_for(sizes_[sample]);
  bool stale = false;
  {
    MutexLock lock(mutex_);
    if (!notes_.holdings[sample].held && counters_.held_bytes + sizes_[sample] > budget_bytes_) return false;
    stale = std::exchange(notes_.holdings[sample].stale, false);
    if (!std::exchange(notes_.holdings[sample].held, true)) {
      counters_.held_bytes += sizes_[sample];
      ++counters_.held_samples;
    }
  }
  if (stale) make_known(sample);
  return true;
}

std::optional<SampleIndex> Pusher::pick_victim(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  while (counters_.held_bytes + bytes > budget_bytes_ && !released_.empty()) {
    const SampleIndex candidate = released_.front();
    released_.pop_front();
    if (!notes_.holdings[candidate].held || !notes_.holdings[candidate].released)
      continue;  // wanted again since, or gone
    forget(candidate);
    if (plan_->holds(candidate)) plan_->on_lost(candidate);
    notes_.holdings[candidate].stale = true;
    ++counters_.evicted_samples;
    return candidate;
  }
  return std::nullopt;
}

void Pusher::forget(SampleIndex sample) {
  notes_.holdings[sample].held = false;
  notes_.holdings[sample].released = false;
  counters_.held_bytes -= sizes_[sample];
  --counters_.held_samples;
}

void Pusher::release(SampleIndex sample) {
  Holding& holding = notes_.holdings[sample];
  if (std::exchange(holding.released, true) || !holding.held) return;
  released_.push_back(sample);
}

void Pusher::finish(const Fetch& fetch, bool success) {
  store_.drop(catalog_.sample_entry(fetch.sample));
  MutexLock lock(mutex_);
  --in_flight_;
  in_flight_bytes_ -= piece_bytes(fetch.sample, 0);
  Holding& holding = notes_.holdings[fetch.sample];
  if (success) {
    ++counters_.pushed_samples;
    counters_.pushed_bytes += catalog_.size_bytes(catalog_.sample_entry(fetch.sample));
  } else {
    ++counters_.push_failures;
    if (holding.held) forget(fetch.sample);
  }
  if (fetch.plan_generation == plan_generation_) {
    if (plan_) plan_->on_fetched(fetch.sample, success);
  } else {
    holding.released = true;
  }
  if (holding.held && holding.released) released_.push_back(fetch.sample);  // its place went while it was under way
  plan_changed();
}

void Pusher::plan_changed() {
  if (plan_) {
    for (const SampleIndex sample : plan_->take_releases()) release(sample);
  }
  changed_ = true;
  work_.notify_one();
}

void Pusher::on_opens(std::span<const SampleIndex> samples) {
  MutexLock lock(mutex_);
  counters_.opens += samples.size();
  if (!plan_) return;
  for (const SampleIndex sample : samples) plan_->on_read(sample);
  note_position();
  plan_changed();
}

void Pusher::note_position() {
  const cache::ReadAhead::State state = plan_->state();
  notes_.head->epoch = state.epoch;
  notes_.head->position = state.position;
}

// The pages of a held sample come back with the READ itself, so it stays held.
void Pusher::on_read(cache::EntryId entry) {
  const std::optional<SampleIndex> sample = catalog_.sample_of(entry);
  if (!sample) return;
  MutexLock lock(mutex_);
  if (notes_.holdings[*sample].held) ++counters_.lost_samples;
  if (!follow_reads_ || !plan_) return;
  plan_->on_read(*sample);
  note_position();
  plan_changed();
}

void Pusher::follow_reads() {
  MutexLock lock(mutex_);
  follow_reads_ = true;
}

void Pusher::on_overflow() {
  MutexLock lock(mutex_);
  ++counters_.overflows;
}

void Pusher::make_plan(std::uint64_t epoch, std::uint64_t position) {
  if (plan_) {
    const cache::ReadAhead::State state = plan_->state();
    counters_.hits += state.hits;
    counters_.late += state.late;
    counters_.strays += state.strays;
  }
  for (SampleIndex sample = 0; sample < sizes_.size(); ++sample) {
    if (notes_.holdings[sample].held) release(sample);  // until the new plan asks for it
  }
  ++plan_generation_;
  plan_.reset();
  order_ = given_order_;
  if (!order_) {
    Result<std::unique_ptr<cache::Order>> listed = cache::make_order("sequential", {.sample_count = sizes_.size()});
    if (listed) order_ = std::move(*listed);
  }
  if (order_ && budget_bytes_ > 0 && !sizes_.empty()) {
    plan_ = std::make_unique<cache::ReadAhead>(
        *order_, sizes_, cache::ReadAheadOptions{.budget_bytes = plan_budget(), .first_epoch = epoch});
    if (position > 0) plan_->seek(epoch, position);
  }
  plan_changed();
}

std::uint64_t Pusher::plan_budget() const {
  if (budget_bytes_ >= total_bytes_) return budget_bytes_;
  return budget_bytes_ - std::min(budget_bytes_ / kGraceShare, kGraceBytesMax);
}

void Pusher::set_order(std::shared_ptr<const cache::Order> order, std::uint64_t epoch, std::uint64_t position) {
  MutexLock lock(mutex_);
  given_order_ = std::move(order);
  make_plan(epoch, position);
}

void Pusher::set_budget(std::uint64_t budget_bytes) {
  MutexLock lock(mutex_);
  budget_bytes_ = budget_bytes;
  if (!plan_) return make_plan(notes_.head->epoch, notes_.head->position);
  plan_->set_budget(plan_budget(), 0);
  plan_changed();
}

std::uint64_t Pusher::budget_bytes() const {
  MutexLock lock(mutex_);
  return budget_bytes_;
}

void Pusher::add_stats(MountStats& stats) const {
  MutexLock lock(mutex_);
  const cache::ReadAhead::State state = plan_ ? plan_->state() : cache::ReadAhead::State{};
  stats.budget_bytes = budget_bytes_;
  stats.held_bytes = counters_.held_bytes;
  stats.held_samples = counters_.held_samples;
  stats.pushed_samples = counters_.pushed_samples;
  stats.pushed_bytes = counters_.pushed_bytes;
  stats.evicted_samples = counters_.evicted_samples;
  stats.push_failures = counters_.push_failures;
  stats.lost_samples = counters_.lost_samples;
  stats.opens = counters_.opens;
  stats.overflows = counters_.overflows;
  stats.hits = counters_.hits + state.hits;
  stats.late = counters_.late + state.late;
  stats.strays = counters_.strays + state.strays;
  stats.epoch = state.epoch;
  stats.position = state.position;
  stats.ahead_samples = state.ahead;
  stats.order = given_order_ ? given_order_->spec() : "";
}

PushProgress Pusher::progress() const {
  MutexLock lock(mutex_);
  PushProgress progress{.held_bytes = counters_.held_bytes,
                        .target_bytes = std::min(plan_budget(), total_bytes_),
                        .held_samples = counters_.held_samples,
                        .target_samples = sizes_.size()};
  if (progress.target_bytes < total_bytes_) {
    const double share = static_cast<double>(progress.target_bytes) / static_cast<double>(total_bytes_);
    progress.target_samples = static_cast<std::uint64_t>(share * static_cast<double>(sizes_.size()));
  }
  return progress;
}

bool Pusher::wait_full(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (!stop_ && !is_full()) {
    if (!finished_.wait_until(lock, deadline)) return is_full();
  }
  return true;
}

}  // namespace headrace::fuse
