// SPDX-License-Identifier: Apache-2.0
// A Reader holds the views of the samples that it has fetched ahead (the window) until next() hands them out. What the
// plan calls resident is held by the store's RAM tier, which was asked to keep it, and is found there in the next
// epoch. Of records nothing is resident by plan: the store keeps chunks of packs where these can stay (range_choice.h).
#include "headrace/cache/reader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <span>
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
// At one time, whatever the plan has room for: more bring nothing, each would be looked at whenever a consumer hurries
// one, and the end of a reader waits for all of them. 256 MiB are a tenth of a second at 2.6 GB/s, and 2 048 what a
// bucket has under way twice over; of large samples as many as an engine has. As soon as an eighth has come the next
// ones are asked for: for each would be a wake-up more.
constexpr std::uint64_t kOnTheirWayBytesMax = 256ULL << 20;
constexpr std::size_t kOnTheirWayMax = 2048;
constexpr std::size_t kOnTheirWayMin = 128;
constexpr std::uint64_t kComeShare = 8;
// In a row. A list may have some epochs without a sample; a rank of more ranks than samples has no other ones.
constexpr unsigned kEmptyEpochsMax = 1000;

// A sample that is on its way, or waits for next() to hand it out.
struct ComingSample {
  std::optional<Result<View>> result;  // empty while it is on its way
  bool planned = false;                // the plan is told how the fetch ends
  bool demanded = false;               // a consumer has asked for it, not the plan
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

// What follows from a read, or from the end of a fetch, and is done without the mutex.
struct AfterRead {
  std::vector<SampleIndex> released;        // to be dropped first: they make the room
  std::array<SampleIndex, 8> planned = {};  // to be fetched; a read makes room for one, of records for some
  std::size_t planned_count = 0;
  std::uint64_t hurries = 0;  // so many there had been
  [[nodiscard]] bool is_full() const { return planned_count == planned.size(); }
};

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
  [[nodiscard]] bool is_followed(std::uint64_t epoch) const;
  [[nodiscard]] std::optional<Result<View>> take_if_there(SampleIndex sample, AfterRead& after)
      HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] std::optional<Result<View>> wait_for(SampleIndex sample, AfterRead& after);
  void finish_read(const AfterRead& after);
  void take_planned(AfterRead& after) HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] bool has_enough_on_their_way() HEADRACE_REQUIRES(mutex_);
  void note_start(SampleIndex sample) HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] bool note_come(SampleIndex sample) HEADRACE_REQUIRES(mutex_);
  void start_planned(const AfterRead& after);
  [[nodiscard]] EntryId entry_of(SampleIndex sample) const;
  [[nodiscard]] Result<View> check_record(SampleIndex record, Result<View> result) const;
  void start(SampleIndex sample, ReadHint hint);
  void on_fetched(SampleIndex sample, Result<View> result);
  void end_fetch() HEADRACE_REQUIRES(mutex_);

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
  std::size_t in_flight_ HEADRACE_GUARDED_BY(mutex_) = 0;  // callbacks that have not ended
  std::size_t on_their_way_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t on_their_way_bytes_ HEADRACE_GUARDED_BY(mutex_) = 0;
  // Of those on their way, when no more were asked for because of their number; 0: that was not the reason.
  std::size_t held_back_at_ HEADRACE_GUARDED_BY(mutex_) = 0;
  bool cancelled_ HEADRACE_GUARDED_BY(mutex_) = false;

  std::atomic<std::uint64_t> hurries_ = 0;  // consumers that asked the store to hurry; raised under mutex_
  io::Mutex following_mutex_;               // the store hears of epochs one after the other
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

// The thread that reads a disk takes the mutex for each sample, too: once is enough for one that is there.
std::optional<Sample> ReaderImpl::next() {
  std::optional<Sample> sample;
  std::optional<Result<View>> content;
  AfterRead after;
  {
    MutexLock lock(mutex_);
    sample = take_position();
    if (!sample) return std::nullopt;
    if (is_followed(sample->epoch)) content = take_if_there(sample->index, after);
  }
  if (!content) {
    follow_to(sample->epoch);
    content = wait_for(sample->index, after);
  }
  if (!content) return std::nullopt;
  sample->bytes = std::move(*content);
  finish_read(after);
  return sample;
}

// Whether somebody has told the store, or is about to. Of records it hears nothing: tiers hold files.
bool ReaderImpl::is_followed(std::uint64_t epoch) const {
  return !following_ || epoch <= followed_epoch_.load();
}

// Of several consumers the first to get into an epoch tells the store. That may take seconds, for which the others do
// not wait.
void ReaderImpl::follow_to(std::uint64_t epoch) {
  if (is_followed(epoch)) return;
  MutexLock lock(following_mutex_);
  if (is_followed(epoch)) return;
  followed_epoch_.store(epoch);
  following_->enter(epoch);
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

// nullopt: it is on its way, or nobody has asked for it.
std::optional<Result<View>> ReaderImpl::take_if_there(SampleIndex sample, AfterRead& after) {
  const auto found = coming_.find(sample);
  if (found == coming_.end() || !found->second.result) return std::nullopt;
  Result<View> result = std::move(*found->second.result);
  const bool in_ram = result && result->served_from() == TierKind::kRam;
  if (found->second.demanded && !in_ram && plan_.holds(sample)) plan_.on_lost(sample);
  coming_.erase(found);
  plan_.on_read(sample);
  after.released = plan_.take_releases();
  take_planned(after);
  return result;
}

// nullopt: cancelled.
std::optional<Result<View>> ReaderImpl::wait_for(SampleIndex sample, AfterRead& after) {
  MutexLock lock(mutex_);
  while (!cancelled_) {
    if (auto content = take_if_there(sample, after)) return content;
    const auto [found, is_new] = coming_.try_emplace(sample);
    ComingSample& coming = found->second;
    if (is_new) {
      coming.demanded = true;  // it is resident in RAM, or nobody foresaw it
      note_start(sample);
      lock.unlock();
      start(sample, ReadHint::kNow);
      lock.lock();
    } else if (!std::exchange(coming.awaited, true) && !coming.demanded) {
      hurries_.fetch_add(1);
      lock.unlock();
      store_.hurry(entry_of(sample));
      lock.lock();  // it may have come meanwhile
    } else {
      changed_.wait(lock);
    }
  }
  return std::nullopt;
}

void ReaderImpl::finish_read(const AfterRead& after) {
  if (!records_) {  // of records the views are gone, and that was all
    for (const SampleIndex gone : after.released) store_.drop(store_.catalog().sample_entry(gone));
  }
  start_planned(after);
  if (after.is_full()) fetch_ahead();
}

// Who hurries a read that was not started yet hurries nothing, so that it is done here.
void ReaderImpl::start_planned(const AfterRead& after) {
  const std::span planned(after.planned.data(), after.planned_count);
  for (const SampleIndex sample : planned) start(sample, ReadHint::kAheadAndKeep);
  if (hurries_.load() == after.hurries) return;
  std::vector<SampleIndex> awaited;
  {
    MutexLock lock(mutex_);
    std::ranges::copy_if(planned, std::back_inserter(awaited), [this](SampleIndex sample) HEADRACE_REQUIRES(mutex_) {
      const auto found = coming_.find(sample);
      return found != coming_.end() && found->second.awaited;
    });
  }
  for (const SampleIndex sample : awaited) store_.hurry(entry_of(sample));
}

void ReaderImpl::fetch_ahead() {
  if (fetch_requests_.fetch_add(1) > 0) return;
  std::uint32_t seen = 1;
  do {
    AfterRead next;
    do {
      next.planned_count = 0;
      {
        MutexLock lock(mutex_);
        take_planned(next);
      }
      start_planned(next);
    } while (next.is_full());
    seen = fetch_requests_.fetch_sub(seen) - seen;
  } while (seen > 0);
}

void ReaderImpl::take_planned(AfterRead& after) {
  after.hurries = hurries_.load();
  while (!cancelled_ && !after.is_full() && !has_enough_on_their_way()) {
    const auto sample = plan_.next_fetch();
    if (!sample) return;
    auto [found, is_new] = coming_.try_emplace(*sample);
    found->second.planned = true;
    if (is_new) {
      note_start(*sample);
      after.planned[after.planned_count++] = *sample;
    } else if (found->second.result) {
      // A consumer was faster: the plan hears of it when it ends, or now if it has.
      static_cast<void>(plan_.on_fetched(*sample, found->second.result->has_value()));
    }
  }
}

void ReaderImpl::note_start(SampleIndex sample) {
  in_flight_ += 1;
  on_their_way_ += 1;
  on_their_way_bytes_ += sizes_[sample];
}

bool ReaderImpl::has_enough_on_their_way() {
  const bool enough = on_their_way_ >= kOnTheirWayMax ||
                      (on_their_way_ >= kOnTheirWayMin && on_their_way_bytes_ >= kOnTheirWayBytesMax);
  if (enough) held_back_at_ = on_their_way_;
  return enough;
}

// True: so many have come since others were held back that these may be asked for.
bool ReaderImpl::note_come(SampleIndex sample) {
  on_their_way_ -= 1;
  on_their_way_bytes_ -= sizes_[sample];
  if (held_back_at_ == 0 || on_their_way_ > held_back_at_ - held_back_at_ / kComeShare) return false;
  held_back_at_ = 0;
  return true;
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
  std::optional<Result<View>> dropped;  // outside of the mutex
  {
    MutexLock lock(mutex_);
    ComingSample& coming = coming_[sample];
    (cancelled_ ? dropped : coming.result).emplace(std::move(result));
    const bool has_come = note_come(sample);
    const bool may_fetch = (coming.planned && plan_.on_fetched(sample, good)) || has_come;
    const bool awaited = coming.awaited;
    // What consumers hold left it no memory. They ask for it themselves when it is its turn.
    if (coming.planned && is_busy) coming_.erase(sample);
    // Most samples come before their turn. Waking a consumer for each costs as much as submitting its read.
    if (awaited) changed_.notify_all();
    if (!may_fetch) return end_fetch();
  }
  dropped.reset();
  fetch_ahead();
  MutexLock lock(mutex_);
  end_fetch();
}

// The reader may go away as soon as nothing is in flight.
void ReaderImpl::end_fetch() {
  in_flight_ -= 1;
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
