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

// 128 fetches keep a device's queue full and hide 20 ms of latency at 5 000 samples/s; 64 MiB bounds what they hold.
constexpr std::uint64_t kFetchesMax = 128;
constexpr std::uint64_t kFetchBytesMax = 64 << 20;
// A bucket answers after 20 to 100 ms, however many requests are under way, so that its rate is what is in flight.
// Its client sends no more of them than bring more, and the store's own memory bounds what they hold: 256 MiB at most.
constexpr std::uint64_t kBucketFetchBytesMax = 256 << 20;
// A record is small, and a source that takes 5 ms for each gives 20 000 a second of 100 at a time.
constexpr std::uint64_t kRecordFetchesMax = 512;
// What fetches leave of the store's memory: room for a READ of any file. For a notification may wait for a page that
// the kernel has locked for a READ, and that READ would wait for the memory of what is to be pushed next.
constexpr std::uint64_t kReadReserveBytes = cache::footprint_bytes(cache::kWholeFileBytesMax);

std::uint64_t fetches_max(const cache::StoreStats& store, bool of_records) {
  const std::uint64_t most = of_records ? kRecordFetchesMax : kFetchesMax;
  return store.bucket ? std::max<std::uint64_t>(most, store.engine.queue_depth_max) : most;
}

std::uint64_t fetch_bytes_max(const cache::StoreStats& store) {
  const std::uint64_t most = store.bucket ? kBucketFetchBytesMax : kFetchBytesMax;
  const std::uint64_t ram_bytes = store.tiers.front().budget_bytes;
  if (ram_bytes == 0) return most;  // no limit
  return std::min(most, ram_bytes - std::min(ram_bytes, kReadReserveBytes));
}

// Larger samples are fetched and pushed in pieces, of the size in which the store holds them.
constexpr std::uint64_t kPieceBytesMax = cache::kChunkBytes;

// For whoever looks closely: a sample that is not pushed is read when it is opened.
void log_failure(const std::filesystem::path& path, int failure) {
  io::log_debug("{}", io::Error{io::ErrorCode::kSystem, failure, "push " + path.string()}.message());
}

PushPlanOptions with_memory(PushPlanOptions options, bool can_retain) {
  options.can_retain = can_retain;
  return options;
}

}  // namespace

Pusher::Pusher(cache::Store& store, std::shared_ptr<const Inodes> inodes, std::filesystem::path root, Takeover takeover,
               PushPlanOptions options)
    : Pusher(store, store.stats(), std::move(inodes), std::move(root), takeover, std::move(options)) {}

Pusher::Pusher(cache::Store& store, const cache::StoreStats& about, std::shared_ptr<const Inodes> inodes,
               std::filesystem::path root, Takeover takeover, PushPlanOptions options)
    : store_(store),
      catalog_(store.catalog()),
      inodes_(std::move(inodes)),
      kernel_(catalog_, inodes_, std::move(root)),
      records_(options.records),
      answers_(records_ ? std::make_unique<RecordAnswers>(records_) : nullptr),
      store_ram_bytes_(about.tiers.front().budget_bytes),
      fetches_max_(fetches_max(about, records_ != nullptr)),
      fetch_bytes_max_(fetch_bytes_max(about)),
      plan_(catalog_, takeover, with_memory(std::move(options), store_ram_bytes_ > 0)) {}

void Pusher::forget_all(cache::EntryId entry) {
  MutexLock lock(mutex_);
  to_forget_.push_back(entry);
}

void Pusher::start(std::shared_ptr<Session> session, unsigned thread_count) {
  kernel_.attach(std::move(session));
  {
    MutexLock lock(mutex_);
    running_ = thread_count;
  }
  for (unsigned i = 0; i < thread_count; ++i) {
    threads_.emplace_back([this, i] {
      ::pthread_setname_np(::pthread_self(), ("hr-push-" + std::to_string(i)).c_str());
      run();
    });
  }
}

void Pusher::request_stop() {
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
}

void Pusher::run() {
  while (true) {
    std::optional<Fetch> arrived;
    {
      MutexLock lock(mutex_);
      while (!stop_ && !has_work()) wait_for_work(lock);
      if (stop_) break;
      if (!fetched_.empty()) {
        arrived = std::move(fetched_.front());
        fetched_.pop_front();
      }
    }
    follow_order();
    forget_changed();
    if (arrived) push(std::move(*arrived));
    evict_for(0);
    share_budget();
    start_fetches();
  }
  MutexLock lock(mutex_);
  if (--running_ > 0) return;
  fetched_.clear();
  lock.unlock();
  following_.reset();
  if (answers_) answers_->forget();
  finished_.notify_all();
}

bool Pusher::has_work() const {
  const bool must_forget = !to_forget_.empty() && !forgets_;
  return !fetched_.empty() || must_forget || can_fetch() || plan_.pages().must_evict();
}

// The store places on its disk tiers what the order needs next. Where a thread tells it already, that one goes on until
// nothing is new.
void Pusher::follow_order() {
  if (records_) return;  // tiers hold files
  MutexLock lock(mutex_);
  if (follows_) return;
  while (!stop_ && (plan_.order() != followed_order_ || plan_.epoch() != followed_epoch_)) {
    const std::shared_ptr<const cache::Order> order = plan_.order();
    const std::uint64_t epoch = plan_.epoch();
    const std::uint64_t held_bytes = plan_.budget_bytes();
    follows_ = true;
    lock.unlock();
    follow(order, epoch, held_bytes);
    lock.lock();
    follows_ = false;
  }
}

void Pusher::follow(const std::shared_ptr<const cache::Order>& order, std::uint64_t epoch, std::uint64_t held_bytes) {
  if (order == followed_order_) {
    if (following_) following_->enter(epoch);
  } else {
    following_.reset();  // before its order goes
    followed_order_ = order;
    if (order) following_ = store_.follow(*order, {.epoch = epoch, .held_bytes = held_bytes});
  }
  followed_epoch_ = epoch;
}

void Pusher::start_fetches() {
  while (true) {
    Fetch fetch;
    {
      MutexLock lock(mutex_);
      if (stop_ || !can_fetch()) return;
      if (!next_) next_ = next_fetch();
      if (!next_) {
        changed_ = false;
        if (is_full()) finished_.notify_all();
        return;
      }
      if (!can_fetch()) return;  // it is large
      fetch = std::move(*std::exchange(next_, std::nullopt));
      if (answers_) expect_record(fetch);
      ++in_flight_;
      in_flight_bytes_ += memory_bytes(fetch);
      source_rate_.charge(fetch.source_bytes, Clock::now());
    }
    drop_retained();  // what makes way for it
    read_piece(std::move(fetch));
  }
}

std::optional<Pusher::Fetch> Pusher::next_fetch() {
  Fetch fetch{.generation = plan_.generation(), .changes = change_count_};
  if (const std::optional<SampleIndex> lost = plan_.next_to_retain()) {
    fetch.sample = *lost;
    fetch.retain = true;
    fetch.push = false;
  } else if (const std::optional<SampleIndex> sample = plan_.next_fetch()) {
    fetch.sample = *sample;
    fetch.retain = plan_.retain(*sample);
  } else {
    return std::nullopt;
  }
  const cache::EntryId entry = entry_of_sample(fetch.sample);
  fetch.inode = inodes_->of(entry);
  fetch.end = store_.identity(entry).value_or(catalog_.identity(entry)).size_bytes;
  if (records_) take_pages(fetch);
  if (source_rate_.is_limited() && !store_.is_on_disk(entry)) fetch.source_bytes = fetch.end - fetch.begin;
  return fetch;
}

cache::EntryId Pusher::entry_of_sample(SampleIndex sample) const {
  return records_ ? records_->pack() : catalog_.sample_entry(sample);
}

void Pusher::take_pages(Fetch& fetch) {
  const PageRange pages = records_->pages_of(fetch.sample);
  fetch.begin = fetch.offset = pages.offset;
  fetch.end = pages.offset + pages.length;
  const bool is_one_piece = pages.length <= kPieceBytesMax;
  if (is_one_piece && plan_.takes_beacon(fetch.sample)) fetch.beacon = records_->own_page(fetch.sample);
}

// Only once nothing keeps it from being read: a READ that waits for it locks pages, and this thread, which begins the
// fetches, may wait for one of these.
void Pusher::expect_record(const Fetch& fetch) {
  if (fetch.end - fetch.begin > kPieceBytesMax) return;  // it comes in pieces
  if (!is_older_than_change(fetch)) answers_->expect(fetch.sample, fetch.inode);
}

bool Pusher::can_fetch() const {
  if (!changed_ || in_flight_ == fetches_max_ || !source_rate_.is_due(Clock::now())) return false;
  return in_flight_ == 0 || in_flight_bytes_ + (next_ ? memory_bytes(*next_) : 0) <= fetch_bytes_max_;
}

// What comes too early by the rate is looked at again when it is due; nothing else wakes the thread for it.
void Pusher::wait_for_work(MutexLock& lock) {
  if (changed_ && !source_rate_.is_due(Clock::now())) {
    static_cast<void>(work_.wait_until(lock, source_rate_.due()));
  } else {
    work_.wait(lock);
  }
}

bool Pusher::is_full() const {
  return !changed_ && in_flight_ == 0;
}

std::uint64_t Pusher::piece_bytes(const Fetch& fetch) {
  return std::min(fetch.end - fetch.offset, kPieceBytesMax);
}

// A piece lies in one chunk, which is in memory as long as its view is.
std::uint64_t Pusher::memory_bytes(const Fetch& fetch) const {
  if (records_) return cache::footprint_bytes(std::min(fetch.end - fetch.begin, kPieceBytesMax));
  return cache::footprint_bytes(cache::chunk_range(fetch.end, 0).length);
}

void Pusher::read_piece(Fetch fetch) {
  const cache::EntryId entry = entry_of_sample(fetch.sample);
  const std::uint64_t offset = fetch.offset;
  const std::uint64_t length = records_ ? piece_bytes(fetch) : kPieceBytesMax;
  const bool is_one_piece = !records_ && fetch.end <= kPieceBytesMax;
  const cache::ReadHint ahead = records_ ? cache::ReadHint::kAheadAlone : cache::ReadHint::kAhead;
  const cache::ReadHint hint = fetch.retain ? cache::ReadHint::kAheadAndKeep : ahead;
  auto done = [self = shared_from_this(), fetch = std::make_shared<Fetch>(std::move(fetch))](Result<cache::View> view) {
    if (view) fetch->view = std::make_shared<const cache::View>(std::move(*view));
    self->on_read_piece(std::move(*fetch));
  };
  if (is_one_piece) {
    store_.read_async(entry, std::move(done), hint);
  } else {
    store_.read_range_async(entry, offset, length, std::move(done), hint);
  }
}

void Pusher::on_read_piece(Fetch fetch) {
  if (answers_) show(fetch);
  MutexLock lock(mutex_);
  if (stop_) return;
  fetched_.push_back(std::move(fetch));
  work_.notify_one();
}

// To READs that wait for it, and to those that come before it is pushed.
void Pusher::show(const Fetch& fetch) {
  const bool is_good = can_show(fetch);
  answers_->arrive(fetch.sample, is_good ? fetch.view->bytes() : std::span<const std::byte>(),
                   is_good ? fetch.view : nullptr);
}

// Whether it is what the inode stands for.
bool Pusher::can_show(const Fetch& fetch) {
  if (!fetch.view || fetch.view->bytes().size() < piece_bytes(fetch) || has_changed(fetch)) return false;
  const cache::EntryId entry = entry_of_sample(fetch.sample);
  return inodes_->stands_for(fetch.inode, store_.identity(entry).value_or(catalog_.identity(entry)));
}

bool Pusher::answer_read(std::uint64_t inode, const PageRange& range, const RecordAnswer& answer) {
  return answers_ && entry_of(inode) == records_->pack() && answers_->answer_read(inode, range, answer);
}

void Pusher::push(Fetch fetch) {
  const std::uint64_t piece = piece_bytes(fetch);
  if (!fetch.push) return finish(fetch, fetch.view && !has_changed(fetch) ? Landing::kRetained : Landing::kNotRetained);
  const bool is_first = fetch.offset == fetch.begin;
  const bool is_read = fetch.view && fetch.view->bytes().size() >= piece && !has_changed(fetch);
  if (is_first && !is_read) return finish(fetch, Landing::kFailedBeforePlace);
  if (is_first && !make_room(fetch.sample)) return finish(fetch, Landing::kNoRoom);
  const int failure = is_read ? store_piece(fetch) : EIO;
  if (failure != 0) {
    if (failure != ENODEV) log_failure(kernel_.path_of(entry_of_sample(fetch.sample)), failure);
    return finish(fetch, Landing::kFailedAfterPlace);
  }
  fetch.offset += piece;
  fetch.view.reset();
  if (fetch.offset < fetch.end) return read_piece(std::move(fetch));
  finish(fetch, has_changed(fetch) ? Landing::kFailedAfterPlace : Landing::kPushed);
}

int Pusher::store_piece(const Fetch& fetch) {
  const cache::EntryId entry = entry_of_sample(fetch.sample);
  const std::span<const std::byte> bytes = fetch.view->bytes();
  if (bytes.empty()) {  // an empty file: knowing its attributes is all
    kernel_.make_known(entry);
    return 0;
  }
  const KernelPages::Storing storing = kernel_.begin_store(entry);
  // Where it is another version by now, its bytes are not for who has opened the one before.
  const cache::Identity now = store_.identity(entry).value_or(catalog_.identity(entry));
  if (has_changed(fetch) || !inodes_->stands_for(fetch.inode, now)) return ESTALE;
  if (!fetch.beacon) return kernel_.store(entry, fetch.inode, fetch.offset, bytes);
  leave_beacon(fetch);
  const std::uint64_t before = *fetch.beacon - fetch.offset;
  const std::uint64_t after = before + records_->page_bytes();
  if (const int failure = kernel_.store(entry, fetch.inode, fetch.offset, bytes.first(before)); failure != 0)
    return failure;
  return kernel_.store(entry, fetch.inode, fetch.offset + after, bytes.subspan(after));
}

// Before the rest is pushed: whoever reads that asks for this page next.
void Pusher::leave_beacon(const Fetch& fetch) {
  const auto page = fetch.view->bytes().subspan(*fetch.beacon - fetch.offset, records_->page_bytes());
  MutexLock lock(mutex_);
  if (is_older_than_change(fetch)) return;
  answers_->leave_beacon(fetch.sample,
                         {.inode = fetch.inode, .offset = *fetch.beacon, .bytes = {page.begin(), page.end()}});
}

bool Pusher::has_changed(const Fetch& fetch) {
  MutexLock lock(mutex_);
  return is_older_than_change(fetch);
}

bool Pusher::is_older_than_change(const Fetch& fetch) const {
  const auto found = changed_at_.find(entry_of_sample(fetch.sample));
  return found != changed_at_.end() && found->second > fetch.changes;
}

void Pusher::forget_changed() {
  std::vector<cache::EntryId> entries;
  {
    MutexLock lock(mutex_);
    if (to_forget_.empty() || forgets_) return;
    entries.swap(to_forget_);
    forgets_ = true;
  }
  kernel_.forget(entries);
  MutexLock lock(mutex_);
  forgets_ = false;
  if (!to_forget_.empty()) work_.notify_one();
  finished_.notify_all();
}

bool Pusher::wait_until_forgotten(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (!stop_ && (forgets_ || !to_forget_.empty())) {
    if (!finished_.wait_until(lock, deadline)) break;
  }
  return !forgets_ && to_forget_.empty();
}

void Pusher::on_changed(std::span<const cache::EntryId> entries) {
  MutexLock lock(mutex_);
  ++change_count_;
  for (const cache::EntryId entry : entries) {
    changed_at_[entry] = change_count_;
    if (records_) {
      if (entry == records_->pack()) forget_pack();
    } else if (const std::optional<SampleIndex> sample = catalog_.sample_of(entry)) {
      plan_.on_changed(*sample);
    }
    to_forget_.push_back(entry);
  }
  plan_changed();
}

void Pusher::forget_pack() {
  io::log_warning("{}: has changed; its records are not pushed any more until it is mounted anew",
                  catalog_.path(records_->pack()));
  plan_.on_pack_changed();
  answers_->forget();
}

// Whether there was one.
bool Pusher::evict_ranges_for(std::uint64_t bytes) {
  for (bool any = false;; any = true) {
    std::optional<ReadInRanges::Slot> victim;
    {
      MutexLock lock(mutex_);
      victim = plan_.next_range_victim(bytes);
    }
    if (!victim) return any;
    kernel_.drop(inodes_->of(catalog_.sample_entry(victim->sample)), victim->range.offset, victim->range.length);
  }
}

// Whether anything was there to evict.
bool Pusher::evict_for(std::uint64_t bytes) {
  for (bool any = evict_ranges_for(bytes);; any = true) {
    std::optional<SampleIndex> victim;
    PageRange pages;  // none: all of the file
    {
      MutexLock lock(mutex_);
      victim = plan_.next_victim(bytes);
      if (victim && records_) {
        pages = plan_.pages_to_drop(*victim);
        answers_->drop_beacon(*victim);
      }
    }
    if (!victim) return any;
    if (records_ && pages.length == 0) continue;
    kernel_.drop(inodes_->of(entry_of_sample(*victim)), pages.offset, pages.length);
  }
}

// What the page cache gives up is the store's to hold. The page cache grows no further than what the plan leaves it, so
// the two together stay within the budget.
void Pusher::share_budget() {
  MutexLock sharing(share_mutex_);
  {
    MutexLock lock(mutex_);
    const std::uint64_t limit = plan_.retained_limit();
    if (std::exchange(retained_limit_, limit) == limit) return;
  }
  drop_retained();
  store_.set_ram_bytes(store_ram_bytes_ + retained_limit_);
}

void Pusher::drop_retained() {
  while (true) {
    std::optional<SampleIndex> sample;
    {
      MutexLock lock(mutex_);
      sample = plan_.next_to_drop();
    }
    if (!sample) return;
    store_.drop(catalog_.sample_entry(*sample));
  }
}

// False: there is no room to be had.
bool Pusher::make_room(SampleIndex sample) {
  std::uint64_t bytes = 0;
  {
    MutexLock lock(mutex_);
    bytes = plan_.pages().bytes_of(sample);
  }
  evict_for(bytes);
  while (!place(sample)) {  // another thread's sample may have taken the room
    if (!evict_for(bytes)) return false;
  }
  return true;
}

bool Pusher::place(SampleIndex sample) {
  bool is_stale = false;
  {
    MutexLock lock(mutex_);
    if (!plan_.place(sample)) return false;
    is_stale = plan_.take_stale(sample);
  }
  if (is_stale && !records_)
    kernel_.make_known(catalog_.sample_entry(sample));  // a store of a range needs no attributes
  return true;
}

void Pusher::finish(const Fetch& fetch, Landing landing) {
  bool is_retained = false;
  bool is_evicted = false;  // by another thread, which told the kernel before all of it was there
  {
    MutexLock lock(mutex_);
    --in_flight_;
    in_flight_bytes_ -= memory_bytes(fetch);
    is_evicted = landing == Landing::kPushed && !plan_.pages().is_held(fetch.sample);
    plan_.on_fetched(fetch.sample, fetch.generation, landing);
    if (answers_) answers_->finish(fetch.sample);
    if (answers_ && landing != Landing::kPushed) answers_->drop_beacon(fetch.sample);
    is_retained = plan_.retained().contains(fetch.sample);  // it may have made way for another while it was fetched
    plan_changed();
  }
  if (is_evicted) kernel_.drop(fetch.inode, fetch.begin, fetch.end - fetch.begin);
  if (!is_retained && !records_) store_.drop(catalog_.sample_entry(fetch.sample));
}

void Pusher::plan_changed() {
  changed_ = true;
  work_.notify_one();
}

void Pusher::on_opens(std::span<const SampleIndex> samples) {
  MutexLock lock(mutex_);
  plan_.on_opens(samples);
  plan_changed();
}

void Pusher::on_read(SampleIndex sample, const PageRange& range) {
  MutexLock lock(mutex_);
  plan_.on_read(sample, range);
  if (plan_.retained().must_fetch()) plan_changed();
  if (plan_.pages().must_evict()) work_.notify_one();
}

void Pusher::on_pack_read(const PageRange& range) {
  MutexLock lock(mutex_);
  plan_.on_pack_read(range);
  plan_changed();
}

bool Pusher::lacks(SampleIndex sample) const {
  if (records_) return false;  // not known by files
  MutexLock lock(mutex_);
  return plan_.lacks(sample);
}

bool Pusher::take_losses() {
  MutexLock lock(mutex_);
  return plan_.take_losses();
}

std::optional<std::uint64_t> Pusher::on_pages_dropped() {
  MutexLock lock(mutex_);
  if (!plan_.on_pages_dropped()) return std::nullopt;
  plan_changed();
  MountStats stats;
  plan_.add_stats(stats);
  return stats.retained_budget_bytes;
}

bool Pusher::wants_order() const {
  MutexLock lock(mutex_);
  return plan_.wants_order();
}

void Pusher::let_go(std::span<const SampleIndex> samples) {
  MutexLock lock(mutex_);
  plan_.let_go(samples);
  plan_changed();
}

void Pusher::on_overflow() {
  MutexLock lock(mutex_);
  plan_.on_overflow();
}

Result<PinOutcome> Pusher::pin(std::span<const SampleIndex> samples) {
  HEADRACE_TRY_DO(check_are_files());
  MutexLock lock(mutex_);
  for (const SampleIndex sample : samples) {
    if (plan_.pages().can_be_pushed(sample)) continue;
    return io::make_error(io::ErrorCode::kInvalidArgument,
                          catalog_.path(catalog_.sample_entry(sample)) +
                              ": leads out of the data set, so that it is never in memory; leave it out");
  }
  const PinOutcome outcome = plan_.pin(samples);
  plan_changed();
  return outcome;
}

// What is on its way is thrown away when it arrives.
Status Pusher::evict(std::span<const SampleIndex> samples) {
  HEADRACE_TRY_DO(check_are_files());
  std::vector<cache::EntryId> entries;
  for (const SampleIndex sample : samples) entries.push_back(catalog_.sample_entry(sample));
  for (const cache::EntryId entry : entries) store_.evict(entry);  // first, or it would be pushed again from there
  {
    MutexLock lock(mutex_);
    plan_.unpin(samples);
  }
  on_changed(entries);
  return {};
}

Status Pusher::check_are_files() const {
  if (!records_) return {};
  return io::make_error(io::ErrorCode::kUnsupported,
                        "a mount with --records holds records, which have no names to pin or evict them by");
}

std::vector<SampleIndex> Pusher::pinned(SampleIndex first, std::size_t count) const {
  std::vector<SampleIndex> samples;
  MutexLock lock(mutex_);
  if (plan_.pages().pinned_samples() == 0) return samples;
  for (SampleIndex sample = first; sample < plan_.pages().sizes().size() && samples.size() < count; ++sample) {
    if (plan_.pages().is_pinned(sample)) samples.push_back(sample);
  }
  return samples;
}

void Pusher::set_order(const OrderPosition& order) {
  MutexLock lock(mutex_);
  plan_.set_order(order);
  plan_changed();
}

std::optional<Pusher::Contradiction> Pusher::take_contradiction() {
  MutexLock lock(mutex_);
  if (!plan_.take_contradiction()) return std::nullopt;
  return Contradiction{.spec = plan_.given_up(), .is_all = plan_.order() == nullptr};
}

void Pusher::set_budget(std::uint64_t budget_bytes) {
  MutexLock lock(mutex_);
  plan_.set_budget(budget_bytes);
  plan_changed();
}

void Pusher::set_source_rate(std::uint64_t bytes_per_second) {
  MutexLock lock(mutex_);
  source_rate_.set(bytes_per_second);
  plan_changed();
}

void Pusher::limit_budget(std::uint64_t budget_bytes) {
  MutexLock lock(mutex_);
  plan_.limit_budget(budget_bytes);
  plan_changed();
}

std::uint64_t Pusher::budget_bytes() const {
  MutexLock lock(mutex_);
  return plan_.budget_bytes();
}

void Pusher::add_stats(MountStats& stats) const {
  stats.staging_bytes = store_ram_bytes_;
  MutexLock lock(mutex_);
  stats.source_rate = source_rate_.bytes_per_second();
  plan_.add_stats(stats);
}

PushProgress Pusher::progress() const {
  MutexLock lock(mutex_);
  return plan_.progress();
}

bool Pusher::wait_full(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (!stop_ && !is_full()) {
    if (!finished_.wait_until(lock, deadline)) return is_full();
  }
  return true;
}

}  // namespace headrace::fuse
