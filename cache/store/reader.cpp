// SPDX-License-Identifier: Apache-2.0
// A Reader holds the views of the samples that it has fetched ahead (the window) until next() hands them out. What the
// plan calls resident is held by the store's RAM tier, which was asked to keep it, and is found there in the next
// epoch. Of records nothing is resident by plan: the store keeps chunks of packs where these can stay (range_choice.h).
#include "headrace/cache/reader.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "headrace/cache/sample_sizes.h"
#include "headrace/io/buffer.h"
#include "headrace/io/log.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {
namespace {

using io::CondVar;
using io::ErrorCode;
using io::MutexLock;

// In every epoch the resident samples lack the room that the window takes. So the window is a small part of the budget,
// but large enough to keep a source busy.
constexpr std::uint64_t kWindowShare = 32;
constexpr std::uint64_t kWindowSamplesMin = 256;
constexpr std::uint64_t kWindowBytesMin = 64ULL << 20;  // of which 256 samples may be less
// An answer of a bucket that stalls is asked for again after 100 ms, and so long the others go on: at 3 300 objects a
// second 256 samples last for 80 ms. With 1 % of stalls and memory for all, an epoch had 0.89 of the rate of a clean
// one instead of 0.70. What that takes from the resident part is bounded.
// Records are small, and a source that takes its time answers a fixed number of them at once: they have as many.
constexpr std::uint64_t kManySamplesMin = 1024;
constexpr std::uint64_t kManyShareMost = 4;
// The plan leaves one part in eight of the RAM budget alone: views that the consumer holds on to live there.
constexpr std::uint64_t kConsumerShare = 8;
// In a row. A list may have some epochs without a sample; a rank of more ranks than samples has no other ones.
constexpr unsigned kEmptyEpochsMax = 1000;

// A sample that is on its way, or waits for next() to hand it out.
struct ComingSample {
  std::optional<Result<View>> result;  // empty while it is on its way
  bool planned = false;                // the plan is told how the fetch ends
  bool awaited = false;                // a consumer sleeps until then
};

std::uint64_t default_window(std::uint64_t ram_bytes, const SampleSizes& sizes, bool wants_many) {
  const std::uint64_t mean = sizes.empty() ? 0 : sizes.total() / sizes.size();
  if (mean == 0) return kWindowBytesMin;
  const std::uint64_t window = std::max(ram_bytes / kWindowShare, std::min(kWindowSamplesMin * mean, kWindowBytesMin));
  if (!wants_many) return window;
  const std::uint64_t most = ram_bytes > 0 ? ram_bytes / kManyShareMost : kWindowBytesMin;
  return std::max(window, std::min(kManySamplesMin * mean, most));
}

ReadAheadOptions plan_options(const StoreStats& store, const SampleSizes& sizes, const ReaderOptions& options) {
  const std::uint64_t ram_bytes = store.tiers.front().budget_bytes;
  const std::uint64_t budget = ram_bytes - ram_bytes / kConsumerShare;
  const bool wants_many = store.bucket.has_value() || options.records;
  std::uint64_t window = options.window_bytes > 0 ? options.window_bytes : default_window(ram_bytes, sizes, wants_many);
  if (ram_bytes > 0) window = std::min(window, budget);
  ReadAheadOptions plan;
  plan.budget_bytes = std::max(budget, window);
  // Less than all, which would be kept from epoch to epoch.
  if (options.records)
    plan.budget_bytes = window = std::min(window, sizes.total() - std::min<std::uint64_t>(sizes.total(), 1));
  plan.window_bytes = window;
  plan.first_epoch = options.first_epoch;
  plan.epoch_count = options.epochs;
  plan.in_order = true;
  return plan;
}

tl::unexpected<io::Error> other_version(const Store& store, EntryId pack) {
  return io::make_error(ErrorCode::kStale, store.catalog().path(pack) +
                                               ": is another version than its records were looked up in; open it anew");
}

SampleSizes sizes_of(const Catalog& catalog, const RecordSet* records) {
  return records != nullptr ? records->sizes_in_pages(io::kBufferAlignment)
                            : sizes_in_pages(catalog, SampleSize::kPagesInStore);
}

class ReaderImpl final : public Reader {
 public:
  ReaderImpl(Store& store, const Order& order, const ReaderOptions& options, std::vector<SampleIndex> first_epoch);
  ~ReaderImpl() override;

  [[nodiscard]] std::optional<Sample> next() override;
  void cancel() override;
  [[nodiscard]] ReadAhead::State state() const override;
  // Starts every fetch that the plan has room for.
  void fetch_ahead();

 private:
  [[nodiscard]] std::optional<Sample> take_position() HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] bool enter_next_epoch() HEADRACE_REQUIRES(mutex_);
  void follow_to(std::uint64_t epoch);
  [[nodiscard]] std::optional<Result<View>> take_content(SampleIndex sample);
  void finish_read(const Sample& sample);
  [[nodiscard]] std::optional<SampleIndex> take_planned();
  [[nodiscard]] EntryId entry_of(SampleIndex sample) const;
  [[nodiscard]] Result<View> check_record(SampleIndex record, Result<View> result) const;
  void start(SampleIndex sample, ReadHint hint);
  void on_fetched(SampleIndex sample, Result<View> result);

  Store& store_;
  const Order& order_;
  const std::shared_ptr<const RecordSet> records_;  // null: the samples are the catalog's
  const std::uint64_t last_epoch_;                  // exclusive
  const SampleSizes sizes_;
  // Calls of fetch_ahead() that are not dealt with. Whoever raises it from 0 deals with all of them, so that a fetch
  // that ends at once, inside start(), does not become a nested call.
  std::atomic<std::uint32_t> fetch_requests_ = 0;

  mutable io::Mutex mutex_;
  CondVar changed_;  // an awaited sample came, nothing is on its way any more, or cancelled
  std::uint64_t epoch_ HEADRACE_GUARDED_BY(mutex_);
  std::uint64_t position_ HEADRACE_GUARDED_BY(mutex_);
  std::vector<SampleIndex> samples_ HEADRACE_GUARDED_BY(mutex_);  // of epoch_
  ReadAhead plan_ HEADRACE_GUARDED_BY(mutex_);
  std::unordered_map<SampleIndex, ComingSample> coming_ HEADRACE_GUARDED_BY(mutex_);
  std::size_t in_flight_ HEADRACE_GUARDED_BY(mutex_) = 0;
  bool cancelled_ HEADRACE_GUARDED_BY(mutex_) = false;

  std::atomic<std::uint64_t> followed_epoch_;
  const std::unique_ptr<Following> following_;
};

ReaderImpl::ReaderImpl(Store& store, const Order& order, const ReaderOptions& options,
                       std::vector<SampleIndex> first_epoch)
    : store_(store),
      order_(order),
      records_(options.records),
      last_epoch_(options.first_epoch + options.epochs),
      sizes_(sizes_of(store.catalog(), records_.get())),
      epoch_(options.first_epoch),
      position_(options.first_position),
      samples_(std::move(first_epoch)),
      plan_(order, sizes_, plan_options(store.stats(), sizes_, options)),
      followed_epoch_(options.first_epoch),
      following_(records_ ? nullptr : store.follow(order, {.epoch = options.first_epoch})) {
  if (options.first_position > 0) plan_.seek(options.first_epoch, options.first_position);
}

ReaderImpl::~ReaderImpl() {
  cancel();
  // What lies here may hold the memory that others of these reads wait for. Those that come later find it cancelled.
  std::vector<Result<View>> dropped;
  MutexLock lock(mutex_);
  for (auto& [sample, coming] : coming_) {
    if (coming.result) dropped.push_back(*std::exchange(coming.result, std::nullopt));
  }
  lock.unlock();
  dropped.clear();
  lock.lock();
  while (in_flight_ > 0) changed_.wait(lock);
  coming_.clear();
  if (records_) return;
  for (SampleIndex sample = 0; sample < sizes_.size(); ++sample) {
    if (plan_.holds(sample)) store_.release(store_.catalog().sample_entry(sample));
  }
}

void ReaderImpl::cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

ReadAhead::State ReaderImpl::state() const {
  MutexLock lock(mutex_);
  return plan_.state();
}

std::optional<Sample> ReaderImpl::next() {
  std::optional<Sample> sample;
  {
    MutexLock lock(mutex_);
    sample = take_position();
  }
  if (!sample) return std::nullopt;
  follow_to(sample->epoch);
  auto content = take_content(sample->index);
  if (!content) return std::nullopt;
  sample->bytes = std::move(*content);
  finish_read(*sample);
  fetch_ahead();
  return sample;
}

// Of several consumers the first to get into an epoch tells the store.
void ReaderImpl::follow_to(std::uint64_t epoch) {
  if (!following_) return;  // tiers hold files
  std::uint64_t followed = followed_epoch_.load();
  if (epoch > followed && followed_epoch_.compare_exchange_strong(followed, epoch)) following_->enter(epoch);
}

std::optional<Sample> ReaderImpl::take_position() {
  if (cancelled_) return std::nullopt;
  for (unsigned empty = 0; position_ >= samples_.size(); ++empty) {
    if (empty > kEmptyEpochsMax || !enter_next_epoch()) return std::nullopt;
  }
  Sample sample;
  sample.epoch = epoch_;
  sample.position = position_;
  sample.index = samples_[position_++];
  sample.entry = entry_of(sample.index);
  if (!records_) sample.label = store_.catalog().sample_label(sample.index);
  return sample;
}

// Takes milliseconds under the lock, once per epoch; other consumers have nothing to take meanwhile either.
bool ReaderImpl::enter_next_epoch() {
  if (epoch_ + 1 >= last_epoch_) return false;
  auto samples = order_.epoch(epoch_ + 1);
  if (!samples) {
    io::log_warning("reader: ends before epoch {}: {}", epoch_ + 1, samples.error().message());
    return false;
  }
  samples_ = std::move(*samples);
  position_ = 0;
  epoch_ += 1;
  return true;
}

// nullopt: cancelled.
std::optional<Result<View>> ReaderImpl::take_content(SampleIndex sample) {
  bool demanded = false;
  MutexLock lock(mutex_);
  while (!cancelled_) {
    auto found = coming_.find(sample);
    if (found == coming_.end()) {
      demanded = true;  // it is resident in RAM, or nobody foresaw it
      coming_.emplace(sample, ComingSample{});
      in_flight_ += 1;
      lock.unlock();
      start(sample, ReadHint::kNow);
      lock.lock();
    } else if (!found->second.result) {
      if (!std::exchange(found->second.awaited, true) && !demanded) {
        lock.unlock();
        store_.hurry(entry_of(sample));
        lock.lock();
        continue;  // it may have come meanwhile
      }
      changed_.wait(lock);
    } else {
      Result<View> result = std::move(*found->second.result);
      coming_.erase(found);
      const bool in_ram = result && result->served_from() == TierKind::kRam;
      if (demanded && !in_ram && plan_.holds(sample)) plan_.on_lost(sample);
      return result;
    }
  }
  return std::nullopt;
}

void ReaderImpl::finish_read(const Sample& sample) {
  std::vector<SampleIndex> released;
  {
    MutexLock lock(mutex_);
    plan_.on_read(sample.index);
    released = plan_.take_releases();
  }
  if (records_) return;  // their views are gone, and that was all
  for (const SampleIndex gone : released) store_.drop(store_.catalog().sample_entry(gone));
}

void ReaderImpl::fetch_ahead() {
  if (fetch_requests_.fetch_add(1) > 0) return;
  std::uint32_t seen = 1;
  do {
    while (auto sample = take_planned()) start(*sample, ReadHint::kAheadAndKeep);
    seen = fetch_requests_.fetch_sub(seen) - seen;
  } while (seen > 0);
}

std::optional<SampleIndex> ReaderImpl::take_planned() {
  MutexLock lock(mutex_);
  while (!cancelled_) {
    const auto sample = plan_.next_fetch();
    if (!sample) return std::nullopt;
    auto [found, is_new] = coming_.try_emplace(*sample);
    found->second.planned = true;
    if (is_new) {
      in_flight_ += 1;
      return sample;
    }
    // A consumer was faster: the plan hears of it when it ends, or now if it has.
    if (found->second.result) plan_.on_fetched(*sample, found->second.result->has_value());
  }
  return std::nullopt;
}

EntryId ReaderImpl::entry_of(SampleIndex sample) const {
  return records_ ? records_->entry(sample) : store_.catalog().sample_entry(sample);
}

void ReaderImpl::start(SampleIndex sample, ReadHint hint) {
  if (!records_) {
    return store_.read_async(
        store_.catalog().sample_entry(sample),
        [this, sample](Result<View> result) { on_fetched(sample, std::move(result)); }, hint);
  }
  const RecordExtent extent = records_->extent(sample);
  if (extent.length == 0) return on_fetched(sample, View{});
  const ReadHint alone = hint == ReadHint::kNow ? hint : ReadHint::kAheadAlone;
  store_.read_range_async(
      entry_of(sample), extent.offset, extent.length,
      [this, sample](Result<View> result) { on_fetched(sample, check_record(sample, std::move(result))); }, alone);
}

// The bytes are of one version of the pack; that its map is of the same one is ours to see.
Result<View> ReaderImpl::check_record(SampleIndex record, Result<View> result) const {
  const RecordSet::Place place = records_->place(record);
  const Pack& pack = records_->packs()[place.pack];
  const Result<Identity> now = store_.identity(pack.entry);
  const bool is_same = now && pack.map.is_of(*now);
  if (is_same && (!result || result->bytes().size() == pack.map.extent(place.record).length)) return result;
  return other_version(store_, pack.entry);
}

void ReaderImpl::on_fetched(SampleIndex sample, Result<View> result) {
  const bool good = result.has_value();
  const bool is_busy = !good && result.error().code == ErrorCode::kBusy;
  bool planned = false;
  std::optional<Result<View>> dropped;  // outside of the mutex
  {
    MutexLock lock(mutex_);
    ComingSample& coming = coming_[sample];
    (cancelled_ ? dropped : coming.result).emplace(std::move(result));
    planned = coming.planned;
    if (planned) plan_.on_fetched(sample, good);
    const bool awaited = coming.awaited;
    // What consumers hold left it no memory. They ask for it themselves when it is its turn.
    if (planned && is_busy) coming_.erase(sample);
    // Most samples come before their turn. Waking a consumer for each costs as much as submitting its read.
    if (awaited) changed_.notify_all();
  }
  if (planned) fetch_ahead();
  MutexLock lock(mutex_);
  in_flight_ -= 1;  // last: the reader may go away as soon as nothing is in flight
  if (in_flight_ == 0) changed_.notify_all();
}

// The catalog may be a saved one, so that the source is asked what each pack is now.
io::Status check_records(Store& store, const RecordSet& records, const std::vector<SampleIndex>& epoch) {
  if (!epoch.empty() && std::ranges::max(epoch) >= records.count()) {
    return io::make_error(ErrorCode::kInvalidArgument, "reader: the order is not over these records");
  }
  for (const Pack& pack : records.packs()) {
    HEADRACE_TRY_DO(store.look_at(pack.entry));
    HEADRACE_TRY(now, store.identity(pack.entry));
    if (!pack.map.is_of(now)) return other_version(store, pack.entry);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Reader>> Reader::open(Store& store, const Order& order, ReaderOptions options) {
  if (options.epochs == 0) return io::make_error(ErrorCode::kInvalidArgument, "reader: no epochs to read");
  HEADRACE_TRY(first, order.epoch(options.first_epoch));
  if (options.first_position > first.size()) {
    return io::make_error(ErrorCode::kInvalidArgument,
                          fmt::format("reader: position {} of an epoch of {}", options.first_position, first.size()));
  }
  if (options.records) HEADRACE_TRY_DO(check_records(store, *options.records, first));
  auto reader = std::make_unique<ReaderImpl>(store, order, options, std::move(first));
  reader->fetch_ahead();
  return reader;
}

}  // namespace headrace::cache
