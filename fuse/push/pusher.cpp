// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/pusher.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include <pthread.h>

#include "headrace/cache/chunk.h"
#include "headrace/io/log.h"

namespace headrace::fuse {
using cache::SampleIndex;
using io::MutexLock;

namespace {

using Clock = std::chrono::steady_clock;

// For whoever looks closely: a sample that is not pushed is read when it is opened.
void log_failure(const std::filesystem::path& path, int failure) {
  io::log_debug("{}", io::Error{io::ErrorCode::kSystem, failure, "push " + path.string()}.message());
}

PushPlanOptions with_memory(PushPlanOptions options, bool can_copy) {
  options.can_copy = can_copy;
  return options;
}

}  // namespace

Pusher::Pusher(cache::Store& store, std::shared_ptr<Inodes> inodes, std::shared_ptr<const MountedAt> root,
               Takeover takeover, PushPlanOptions options)
    : Pusher({.store = store, .catalog = store.catalog(), .inodes = std::move(inodes), .records = options.records},
             store.stats(), std::move(root), takeover, std::move(options)) {}

Pusher::Pusher(PushParts parts, const cache::StoreStats& about, std::shared_ptr<const MountedAt> root,
               Takeover takeover, PushPlanOptions&& options)
    : parts_(std::move(parts)),
      answers_(parts_.records ? std::make_unique<RecordAnswers>(parts_.records) : nullptr),
      store_ram_bytes_(about.tiers.front().budget_bytes),
      limits_(about, parts_.records != nullptr, options.others_bytes),
      kernel_(parts_.catalog, parts_.inodes, std::move(root)),
      stale_(kernel_),
      delivery_(parts_, kernel_, stale_, answers_.get()),
      plan_(parts_.catalog, takeover, with_memory(std::move(options), store_ram_bytes_ > 0),
            [this] { plan_changed(); }),
      room_(parts_, kernel_, plan_, answers_.get(), store_ram_bytes_),
      tiers_(parts_.store) {}

void Pusher::forget_all(cache::EntryId entry) {
  stale_.add_for_kernel(entry);
  MutexLock lock(mutex_);
  work_.notify_one();
}

void Pusher::start(std::shared_ptr<Session> session, unsigned thread_count, PlanListener listener,
                   KernelPages::OnForgotten on_forgotten) {
  kernel_.attach(std::move(session), std::move(on_forgotten));
  plan_.start(std::move(listener));
  for (unsigned i = 0; i < thread_count; ++i) {
    MutexLock lock(mutex_);  // that a thread ends by itself is seen once it counts
    threads_.emplace_back([this, i] {
      ::pthread_setname_np(::pthread_self(), ("hr-push-" + std::to_string(i)).c_str());
      run();
    });
    ++running_;
  }
}

void Pusher::request_stop() {
  plan_.request_stop();
  stale_.stop();
  MutexLock lock(mutex_);
  stop_ = true;
  work_.notify_all();
  finished_.notify_all();
}

bool Pusher::wait_stopped(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (running_ > 0) {
    if (!finished_.wait_until(lock, deadline)) return running_ == 0;
  }
  return true;
}

void Pusher::join() {
  request_stop();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  plan_.stop();
}

void Pusher::run() {
  while (true) {
    std::optional<Fetch> arrived;
    {
      MutexLock lock(mutex_);
      while (!stop_ && !has_work()) wait_for_work(lock);
      if (stop_) break;
      may_evict_ = false;
      if (!fetched_.empty()) {
        arrived = std::move(fetched_.front());
        fetched_.pop_front();
      }
    }
    if (!parts_.records) tiers_.follow(plan_);  // tiers hold files
    stale_.forget();
    if (arrived) push(std::move(*arrived));
    room_.evict_for(0);
    room_.share_budget();
    start_fetches();
  }
  end_thread();
}

// The last one leaves nothing behind.
void Pusher::end_thread() {
  MutexLock lock(mutex_);
  if (--running_ > 0) return;
  fetched_.clear();
  lock.unlock();
  tiers_.reset();
  if (answers_) answers_->forget();
  finished_.notify_all();
}

bool Pusher::has_work() const {
  return !fetched_.empty() || may_evict_ || can_fetch() || stale_.must_forget();
}

void Pusher::start_fetches() {
  while (std::optional<Fetch> fetch = plan_.use([this](PushPlan& plan) { return take_next(plan); })) {
    room_.drop_copies();  // what makes way for it
    read_piece(std::move(*fetch));
  }
}

// The next one to begin, which counts as on its way; nullopt: none may begin now.
std::optional<Fetch> Pusher::take_next(PushPlan& plan) {
  const std::uint64_t changes = stale_.changes();  // before can_fetch() tells whether the plan has heard of all of them
  {
    MutexLock lock(mutex_);
    if (stop_ || !can_fetch()) return std::nullopt;
  }
  if (!next_) next_ = name_next(plan, changes);
  MutexLock lock(mutex_);
  next_bytes_ = next_ ? next_->memory_bytes : 0;
  if (!next_) {
    changed_ = false;
    if (is_full()) finished_.notify_all();
    return std::nullopt;
  }
  if (!can_fetch()) return std::nullopt;  // it is large
  delivery_.expect(*next_);
  const bool is_charged = limits_.rate().is_limited() && !is_on_disk(*next_);
  limits_.begin(std::exchange(next_bytes_, 0), is_charged ? next_->end - next_->begin : 0, Clock::now());
  return std::exchange(next_, std::nullopt);
}

bool Pusher::is_on_disk(const Fetch& fetch) const {
  if (!parts_.records) return parts_.store.is_on_disk(fetch.entry);
  return parts_.store.is_range_on_disk(fetch.entry, fetch.begin, fetch.piece_bytes());
}

std::optional<Fetch> Pusher::name_next(PushPlan& plan, std::uint64_t changes) const {
  Fetch fetch{.generation = plan.generation(), .changes = changes};
  if (const std::optional<SampleIndex> lost = plan.next_to_copy()) {
    fetch.sample = *lost;
    fetch.hold_copy = true;
    fetch.push = false;
  } else if (const std::optional<SampleIndex> sample = plan.next_fetch()) {
    fetch.sample = *sample;
    fetch.hold_copy = plan.hold_copy(*sample);
  } else {
    return std::nullopt;
  }
  fetch.entry = parts_.entry_of(fetch.sample);
  fetch.inode = parts_.inodes->of(fetch.entry);
  fetch.end = parts_.identity_of(fetch.entry).size_bytes;
  if (parts_.records) {
    take_pages(fetch, plan);
    fetch.memory_bytes = cache::footprint_bytes(fetch.piece_bytes());
  } else {  // a piece lies in one chunk, which is in memory as long as its view is
    fetch.memory_bytes = cache::footprint_bytes(cache::chunk_range(fetch.end, 0).length);
  }
  return fetch;
}

void Pusher::take_pages(Fetch& fetch, PushPlan& plan) const {
  const PageRange pages = parts_.records->pages_of(fetch.sample);
  fetch.begin = fetch.offset = pages.offset;
  fetch.end = pages.offset + pages.length;
  if (fetch.is_one_piece() && plan.record_pages().takes_beacon(fetch.sample))
    fetch.beacon = parts_.records->own_page(fetch.sample);
}

// What the plan has not heard of as changed is not fetched: it would be counted as dropped after it was pushed.
bool Pusher::can_fetch() const {
  return changed_ && untold_changes_ == 0 && limits_.has_room(next_bytes_, Clock::now());
}

// What comes too early by the rate is looked at again when it is due; nothing else wakes the thread for it.
void Pusher::wait_for_work(MutexLock& lock) {
  if (changed_ && !limits_.rate().is_due(Clock::now())) {
    static_cast<void>(work_.wait_until(lock, limits_.rate().due()));
  } else {
    work_.wait(lock);
  }
}

bool Pusher::is_full() const {
  return !changed_ && !may_evict_ && limits_.is_idle() && !plan_.has_changes();
}

void Pusher::read_piece(Fetch fetch) {
  const cache::EntryId entry = fetch.entry;
  const std::uint64_t offset = fetch.offset;
  const std::uint64_t length = parts_.records ? fetch.piece_bytes() : kPieceBytesMax;
  const bool is_whole_file = !parts_.records && fetch.end <= kPieceBytesMax;
  const cache::ReadHint ahead = parts_.records ? cache::ReadHint::kAheadAlone : cache::ReadHint::kAhead;
  const cache::ReadHint hint = fetch.hold_copy ? cache::ReadHint::kAheadAndKeep : ahead;
  auto done = [self = shared_from_this(), fetch = std::make_shared<Fetch>(std::move(fetch))](Result<cache::View> view) {
    if (view) {
      fetch->is_from_source |= view->served_from() == cache::TierKind::kSource;
      fetch->view = std::make_shared<const cache::View>(std::move(*view));
    }
    self->on_read_piece(std::move(*fetch));
  };
  if (is_whole_file) {
    parts_.store.read_async(entry, std::move(done), hint);
  } else {
    parts_.store.read_range_async(entry, offset, length, std::move(done), hint);
  }
}

void Pusher::on_read_piece(Fetch fetch) {
  delivery_.show(fetch);
  MutexLock lock(mutex_);
  if (stop_) return;
  fetched_.push_back(std::move(fetch));
  work_.notify_one();
}

bool Pusher::answer_read(std::uint64_t inode, const PageRange& range, const RecordAnswer& answer) {
  if (!answers_) return false;
  const cache::EntryId pack = parts_.inodes->entry_of(inode);
  return pack != cache::kNoEntry && parts_.records->is_pack(pack) && answers_->answer_read(pack, inode, range, answer);
}

void Pusher::push(Fetch fetch) {
  const bool is_read = delivery_.is_read(fetch);
  if (!fetch.push) {
    const bool is_kept = fetch.view && !delivery_.has_changed(fetch);
    return finish(fetch, is_kept ? Landing::kCopyHeld : Landing::kCopyFailed);
  }
  const bool is_first = fetch.offset == fetch.begin;
  if (is_first && !is_read) return finish(fetch, Landing::kFailedBeforePlace);
  if (is_first && !room_.make_for(fetch.sample)) return finish(fetch, Landing::kNoRoom);
  const int failure = is_read ? delivery_.store(fetch) : EIO;
  if (failure != 0) {
    if (failure != ENODEV) log_failure(kernel_.path_of(fetch.entry), failure);
    return finish(fetch, Landing::kFailedAfterPlace);
  }
  fetch.offset += fetch.piece_bytes();
  fetch.view.reset();
  if (fetch.offset < fetch.end) return read_piece(std::move(fetch));
  finish(fetch, delivery_.has_changed(fetch) ? Landing::kFailedAfterPlace : Landing::kPushed);
}

void Pusher::finish(const Fetch& fetch, Landing landing) {
  bool has_copy = false;
  bool is_evicted = false;  // by another thread, which told the kernel before all of it was there
  plan_.use([&](PushPlan& plan) {
    is_evicted = landing == Landing::kPushed && !plan.pages().is_held(fetch.sample);
    if (fetch.push && fetch.is_from_source) plan.note_from_source();
    plan.on_fetched(fetch.sample, fetch.generation, landing);
    if (answers_) answers_->finish(fetch.sample);
    if (answers_ && landing != Landing::kPushed) answers_->drop_beacon(fetch.sample);
    has_copy = plan.copies().contains(fetch.sample);  // it may have made way for another while it was fetched
    MutexLock lock(mutex_);
    limits_.end(fetch.memory_bytes);
    changed_ = true;
    work_.notify_one();
  });
  if (is_evicted) kernel_.drop(fetch.inode, fetch.begin, fetch.end - fetch.begin);
  if (!has_copy && !parts_.records) parts_.store.drop(fetch.entry);
}

void Pusher::plan_changed() {
  MutexLock lock(mutex_);
  changed_ = may_evict_ = true;
  work_.notify_one();
}

void Pusher::on_changed(std::span<const cache::EntryId> entries) {
  {
    MutexLock lock(mutex_);
    ++untold_changes_;
  }
  stale_.add(entries);
  std::vector<SampleIndex> samples;
  std::vector<cache::EntryId> packs;
  for (const cache::EntryId entry : entries) {
    if (parts_.records && parts_.records->is_pack(entry)) packs.push_back(entry);
    const std::optional<SampleIndex> sample = parts_.records ? std::nullopt : parts_.catalog.sample_of(entry);
    if (sample) samples.push_back(*sample);
  }
  if (!packs.empty()) answers_->forget();
  plan_.change([this, packs = std::move(packs), samples = std::move(samples)](PushPlan& plan) {
    for (const cache::EntryId pack : packs) plan.on_pack_changed(pack);
    for (const SampleIndex sample : samples) plan.on_changed(sample);
    MutexLock lock(mutex_);
    --untold_changes_;
  });
  MutexLock lock(mutex_);
  work_.notify_one();  // the kernel is to forget them
}

Result<PinOutcome> Pusher::pin(std::span<const SampleIndex> samples) {
  HEADRACE_TRY_DO(check_are_files());
  for (const SampleIndex sample : samples) {
    const cache::EntryId entry = parts_.catalog.sample_entry(sample);
    if (parts_.catalog.is_file(entry)) continue;
    return io::make_error(
        io::ErrorCode::kInvalidArgument,
        parts_.catalog.path(entry) + ": leads out of the data set, so that it is never in memory; leave it out");
  }
  const PinOutcome outcome = plan_.look([samples](PushPlan& plan) { return plan.pin(samples); });
  plan_changed();
  return outcome;
}

// What is on its way is thrown away when it arrives.
Status Pusher::evict(std::span<const SampleIndex> samples) {
  HEADRACE_TRY_DO(check_are_files());
  std::vector<cache::EntryId> entries;
  for (const SampleIndex sample : samples) entries.push_back(parts_.catalog.sample_entry(sample));
  for (const cache::EntryId entry : entries) parts_.store.evict(entry);  // or it would be pushed again from there
  plan_.look([samples](PushPlan& plan) { plan.unpin(samples); });
  on_changed(entries);
  return {};
}

Status Pusher::check_are_files() const {
  if (!parts_.records) return {};
  return io::make_error(io::ErrorCode::kUnsupported,
                        "a mount with --records holds records, which have no names to pin or evict them by");
}

void Pusher::set_source_rate(std::uint64_t bytes_per_second) {
  MutexLock lock(mutex_);
  limits_.rate().set(bytes_per_second);
  changed_ = true;
  work_.notify_one();
}

void Pusher::add_stats(MountStats& stats) {
  stats.staging_bytes = store_ram_bytes_;
  plan_.add_stats(stats);
  MutexLock lock(mutex_);
  stats.source_rate = limits_.rate().bytes_per_second();
}

bool Pusher::wait_full(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (!stop_ && !is_full()) {
    if (!finished_.wait_until(lock, deadline)) return is_full();
  }
  return true;
}

}  // namespace headrace::fuse
