// SPDX-License-Identifier: Apache-2.0
// Batches of samples as they lie on storage, for data that is no images. A thread of its own takes them from the
// reader, so that the consumer can stop waiting.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include <pthread.h>

#include "headrace/capi/internal/loader.h"
#include "headrace/decode/sample_source.h"
#include "headrace/io/log.h"
#include "headrace/io/mutex.h"

namespace headrace::capi {
namespace {

class ByteBatches final : public Batches {
 public:
  ByteBatches(Parts& parts, const hr_loader_options& options)
      : reader_(*parts.reader),
        ends_with_pack_(parts.dataset->records != nullptr),
        options_(batch_options(options)),
        positions_(positions_of(options)),
        feeder_([this] { feed(); }) {}
  ~ByteBatches() override {
    stop();
    feeder_.join();
  }

  io::Result<std::unique_ptr<BatchHandle>> next(Deadline deadline) override;
  void stop() override;
  decode::StageReport report() const override { return counters_.report(); }

 private:
  using Handle = std::unique_ptr<BatchHandle>;

  void feed() noexcept;
  void take_all();
  bool end_epoch(Handle batch, bool has_begun);
  static void drop_samples(BatchHandle& batch);
  void add(BatchHandle& batch, cache::Sample sample);
  void add_bytes(BatchHandle& batch, const cache::View& view);
  bool hand_over(Handle batch);
  void end(io::Status status);

  cache::Reader& reader_;
  const bool ends_with_pack_;  // where a pack changes its other records are elsewhere as well: none of these is bad
  const decode::BatchOptions options_;
  const Positions positions_;
  decode::StageCounters counters_;

  io::Mutex mutex_;
  io::CondVar room_;
  io::CondVar changed_for_consumer_;
  std::deque<Handle> ready_ HEADRACE_GUARDED_BY(mutex_);  // at most batches_ahead
  io::Status status_ HEADRACE_GUARDED_BY(mutex_);
  bool ended_ HEADRACE_GUARDED_BY(mutex_) = false;  // nothing comes behind what is ready
  bool stopped_ HEADRACE_GUARDED_BY(mutex_) = false;

  std::thread feeder_;
};

io::Result<std::unique_ptr<BatchHandle>> ByteBatches::next(Deadline deadline) {
  const decode::StageCounters::Timer timer(counters_.deliver_ns);
  io::MutexLock lock(mutex_);
  bool in_time = true;
  while (!stopped_ && !ended_ && ready_.empty() && in_time) in_time = changed_for_consumer_.wait_until(lock, deadline);
  if (stopped_) return Handle();
  if (!ready_.empty()) {
    Handle batch = std::move(ready_.front());
    ready_.pop_front();
    room_.notify_one();
    return batch;
  }
  if (!ended_) return io::make_error(io::ErrorCode::kTimedOut, "no batch is ready");
  if (!status_) return tl::unexpected(status_.error());
  return Handle();
}

void ByteBatches::stop() {
  reader_.cancel();
  io::MutexLock lock(mutex_);
  stopped_ = true;
  room_.notify_all();
  changed_for_consumer_.notify_all();
}

void ByteBatches::feed() noexcept {
  pthread_setname_np(pthread_self(), "hr-feed");
  try {
    take_all();
  } catch (const std::bad_alloc&) {
    end(io::system_error(ENOMEM, "a batch of bytes"));
  }
}

void ByteBatches::take_all() {
  Handle batch;
  std::uint64_t epoch = 0;
  bool has_begun = false;  // the epoch has handed out a batch
  for (;;) {
    std::optional<cache::Sample> sample;
    {
      const decode::StageCounters::Timer timer(counters_.read_ns);
      sample = reader_.next();
    }
    const bool epoch_ends = !sample || sample->epoch != epoch;
    if (epoch_ends && batch && !end_epoch(std::exchange(batch, nullptr), has_begun)) return;
    if (!sample) return end({});
    if (epoch_ends) has_begun = false;
    epoch = sample->epoch;
    if (!batch) {
      batch = std::make_unique<BatchHandle>();
      batch->epoch = sample->epoch;
    }
    const bool raises = options_.bad_samples == decode::BadSamples::kRaise;
    if (!sample->bytes && (raises || (ends_with_pack_ && sample->bytes.error().code == io::ErrorCode::kStale))) {
      return end(tl::unexpected(decode::error_of_sample(sample->bytes.error())));
    }
    add(*batch, std::move(*sample));
    if (batch->count < options_.batch_size) continue;
    has_begun = true;
    if (!hand_over(std::exchange(batch, nullptr))) return;
  }
}

// An epoch's last batch, which may be left out; but an epoch without any batch says so by an empty one. False: stopped.
bool ByteBatches::end_epoch(Handle batch, bool has_begun) {
  const bool is_batch = batch->count > 0 && !options_.drop_last;
  if (!is_batch && has_begun) return true;
  if (!is_batch) drop_samples(*batch);
  return hand_over(std::move(batch));
}

void ByteBatches::drop_samples(BatchHandle& batch) {
  batch.count = 0;
  batch.numbers.clear();
  batch.own_states.clear();
  batch.bytes.clear();
  batch.own_bytes.clear();
}

void ByteBatches::add(BatchHandle& batch, cache::Sample sample) {
  batch.next_position = sample.position + 1;
  if (!sample.bytes) {
    counters_.bad_samples.fetch_add(1, std::memory_order_relaxed);
    const std::string& reason = sample.bytes.error().message();
    io::log_warning("bad sample {}: {}", sample.index, reason);
    batch.all_notes.push_back({positions_.of(sample.position), sample.index, HR_SAMPLE_BAD, nullptr});
    batch.reasons.push_back(reason);
    if (options_.bad_samples == decode::BadSamples::kSkip) return;
    batch.own_states.push_back(HR_SAMPLE_BAD);
    batch.bytes.push_back({nullptr, 0});
  } else {
    batch.own_states.push_back(HR_SAMPLE_GOOD);
    add_bytes(batch, *sample.bytes);
  }
  batch.numbers.push_back(sample.label);
  batch.numbers.push_back(static_cast<std::int64_t>(sample.index));
  ++batch.count;
}

// A copy, because a View holds memory of the store that a further sample of this batch may wait for.
void ByteBatches::add_bytes(BatchHandle& batch, const cache::View& view) {
  const std::span<const std::byte> bytes = view.bytes();
  counters_.count_sample(bytes.size(), view.served_from(), 0);
  batch.own_bytes.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes.size()));
  std::ranges::copy(bytes, batch.own_bytes.back().get());
  batch.bytes.push_back({batch.own_bytes.back().get(), bytes.size()});
}

// False: stopped.
bool ByteBatches::hand_over(Handle batch) {
  // Labels and indices came in pairs; each is an array for C.
  const std::vector<std::int64_t> pairs = batch->numbers;
  for (std::size_t i = 0; i < batch->count; ++i) {
    batch->numbers[i] = pairs[2 * i];
    batch->numbers[batch->count + i] = pairs[2 * i + 1];
  }
  batch->labels = batch->numbers.data();
  batch->indices = batch->numbers.data() + batch->count;
  batch->states = batch->own_states.data();
  batch->finish();
  const decode::StageCounters::Timer timer(counters_.held_back_ns);
  io::MutexLock lock(mutex_);
  while (!stopped_ && ready_.size() == options_.batches_ahead) room_.wait(lock);
  if (stopped_) return false;
  ready_.push_back(std::move(batch));
  changed_for_consumer_.notify_one();
  return true;
}

void ByteBatches::end(io::Status status) {
  io::MutexLock lock(mutex_);
  status_ = std::move(status);
  ended_ = true;
  changed_for_consumer_.notify_one();
}

}  // namespace

io::Result<std::unique_ptr<Batches>> byte_batches(Parts& parts, const hr_loader_options& options) {
  return std::make_unique<ByteBatches>(parts, options);
}

}  // namespace headrace::capi
