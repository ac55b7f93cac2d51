// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/batch_loader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include <pthread.h>

#include "headrace/decode/internal/batch_assembler.h"
#include "headrace/decode/internal/batch_slot.h"
#include "headrace/decode/internal/queue.h"
#include "headrace/decode/internal/slot_ring.h"
#include "headrace/decode/sample_transformer.h"
#include "headrace/decode/usable_cores.h"
#include "headrace/io/buffer.h"
#include "headrace/io/log.h"

namespace headrace::decode {
namespace {

using io::ErrorCode;
using io::make_error;

constexpr std::size_t kBatchSizeMax = 65'536;  // larger ones are no batches; keeps row numbers within 32 bits
constexpr std::size_t kBatchesAheadMax = 64;   // each one costs a batch of memory; 2 are enough
// Samples that wait for a decoder thread. More would only pin more of the cache's memory.
constexpr std::size_t kQueuedPerThread = 4;

std::size_t memories_needed(const BatchOptions& options) {
  return options.batches_ahead + 1 + (options.bad_samples == BadSamples::kSkip ? 1 : 0);
}

Status check_memory(const BatchOptions& options) {
  if (options.memory.empty()) return {};
  if (options.memory.size() != memories_needed(options)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "memory for " + std::to_string(memories_needed(options)) + " batches is needed");
  }
  const std::size_t alignment = element_bytes(options.format.type);
  for (const std::span<std::byte> memory : options.memory) {
    if (memory.size() < batch_bytes(options) || reinterpret_cast<std::uintptr_t>(memory.data()) % alignment != 0) {
      return make_error(ErrorCode::kInvalidArgument, "memory for a batch is too small or not aligned to its elements");
    }
  }
  return {};
}

Status check(const BatchOptions& options) {
  if (options.batch_size == 0 || options.batch_size > kBatchSizeMax) {
    return make_error(ErrorCode::kInvalidArgument, "batch size must be 1 to " + std::to_string(kBatchSizeMax));
  }
  if (options.batches_ahead == 0 || options.batches_ahead > kBatchesAheadMax) {
    return make_error(ErrorCode::kInvalidArgument, "batches ahead must be 1 to " + std::to_string(kBatchesAheadMax));
  }
  if (Status status = check(options.transform); !status) return status;
  return check_memory(options);
}

}  // namespace

std::size_t batch_bytes(const BatchOptions& options) {
  const Size size = output_size(options.transform.geometry);
  return options.batch_size * static_cast<std::size_t>(size.pixels()) * Image::kChannels *
         element_bytes(options.format.type);
}

struct BatchLoader::Impl final : Job {
  Impl(std::unique_ptr<SampleSource> sample_source, const BatchOptions& batch_options);
  // Gives every slot its memory. Errors: kSystem with ENOMEM.
  Status set_up();
  AssemblyOptions assembly_options() const;

  void feed();
  std::optional<RawSample> next_raw();
  BatchSlot* open_slot(std::uint64_t epoch);
  bool add_row(BatchSlot& slot, RawSample raw);
  void finish_part(BatchSlot& slot);

  void run(Worker& worker, std::uint32_t part) noexcept override;
  Status transform_row(Worker& worker, BatchRow& row, std::byte* out);
  void fail_row(BatchRow& row, io::Error error, std::byte* out);

  // Constant after start.
  const BatchOptions options;
  const TensorWriter writer;
  const std::size_t sample_bytes;
  std::vector<io::Buffer> buffers;
  std::span<std::byte> spare;

  // Synchronise themselves.
  std::unique_ptr<SampleSource> source;
  StageCounters counters;
  SkippedRows skipped;
  EventCount gate;  // opened and closed by pause(), resume() and stop()
  std::atomic<bool> paused = false;
  std::atomic<bool> stopped = false;
  SlotRing<BatchSlot> ring;

  // The feeder's.
  std::size_t target_rows = 0;  // of the slot that is being filled

  // The consumer's.
  std::optional<BatchAssembler> assembler;
  Status status;

  WorkerPool workers;
  std::thread feeder;
};

BatchLoader::Impl::Impl(std::unique_ptr<SampleSource> sample_source, const BatchOptions& batch_options)
    : options(batch_options),
      writer(batch_options.format),
      sample_bytes(batch_bytes(batch_options) / batch_options.batch_size),
      source(std::move(sample_source)),
      ring(batch_options.batches_ahead + 1),
      workers(batch_options.workers, kQueuedPerThread * batch_options.workers.threads, counters) {}

Status BatchLoader::Impl::set_up() {
  std::vector<std::span<std::byte>> memory = options.memory;
  while (memory.size() < memories_needed(options)) {
    Result<io::Buffer> buffer = io::Buffer::allocate(batch_bytes(options));
    if (!buffer) return tl::unexpected(std::move(buffer.error()));
    memory.emplace_back(buffer->data(), batch_bytes(options));
    buffers.push_back(std::move(*buffer));
  }
  for (std::size_t i = 0; i < ring.slot_count(); ++i) {
    ring.slots()[i].memory = memory[i];
    ring.slots()[i].rows.resize(options.batch_size);
  }
  spare = memory.back();
  assembler.emplace(ring, skipped, assembly_options());
  return {};
}

AssemblyOptions BatchLoader::Impl::assembly_options() const {
  return {.batch_size = options.batch_size,
          .sample_bytes = sample_bytes,
          .drop_last = options.drop_last,
          .bad_samples = options.bad_samples,
          .first_batch = options.first_batch,
          .spare = spare};
}

void BatchLoader::Impl::feed() {
  pthread_setname_np(pthread_self(), "hr-feed");
  BatchSlot* slot = nullptr;
  while (std::optional<RawSample> raw = next_raw()) {
    if (slot != nullptr && slot->epoch != raw->epoch) finish_part(*std::exchange(slot, nullptr));
    if (slot == nullptr) slot = open_slot(raw->epoch);
    if (slot == nullptr || !add_row(*slot, std::move(*raw))) return;  // stopped
    if (slot->row_count == target_rows) finish_part(*std::exchange(slot, nullptr));
  }
  if (slot != nullptr) finish_part(*slot);
  ring.finish();
}

std::optional<RawSample> BatchLoader::Impl::next_raw() {
  gate.await([this] { return !paused || stopped; });
  const StageCounters::Timer timer(counters.read_ns);
  return source->next();
}

BatchSlot* BatchLoader::Impl::open_slot(std::uint64_t epoch) {
  const StageCounters::Timer timer(counters.held_back_ns);
  BatchSlot* slot = ring.acquire();
  if (slot == nullptr) return nullptr;
  slot->epoch = epoch;
  slot->row_count = 0;
  slot->unfinished = 1;  // the feeder's own part
  target_rows = skipped.take_slot_rows(epoch, options.batch_size);
  return slot;
}

bool BatchLoader::Impl::add_row(BatchSlot& slot, RawSample raw) {
  const auto place = static_cast<std::size_t>(&slot - ring.slots().data());
  const std::size_t part = place * options.batch_size + slot.row_count;
  slot.rows[slot.row_count++].raw = std::move(raw);
  ++slot.unfinished;
  const StageCounters::Timer timer(counters.held_back_ns);
  return workers.submit({this, static_cast<std::uint32_t>(part)});
}

void BatchLoader::Impl::finish_part(BatchSlot& slot) {
  if (slot.unfinished.fetch_sub(1) == 1) ring.complete(slot);
}

void BatchLoader::Impl::run(Worker& worker, std::uint32_t part) noexcept {
  BatchSlot& slot = ring.slots()[part / options.batch_size];
  const std::size_t number = part % options.batch_size;
  BatchRow& row = slot.rows[number];
  std::byte* out = &slot.memory[number * sample_bytes];
  counters.count_sample(row.raw.bytes ? row.raw.bytes->size() : 0, row.raw.served_from, workers.queue_depth());
  Status done = transform_row(worker, row, out);
  if (!done) fail_row(row, std::move(done.error()), out);
  row.raw.pin.reset();  // lets the cache have its memory back
  finish_part(slot);
}

Status BatchLoader::Impl::transform_row(Worker& worker, BatchRow& row, std::byte* out) try {
  if (!row.raw.bytes) return tl::unexpected(row.raw.bytes.error());
  if (!worker.transformer) worker.transformer.emplace(options.transform, writer);
  const RandomKey key = {
      .seed = options.seed, .epoch = row.raw.epoch, .position = row.raw.position, .sample = row.raw.index};
  {
    const StageCounters::Timer timer(counters.decode_ns);
    if (Status decoded = worker.transformer->decode(worker.decoder, *row.raw.bytes, key); !decoded) return decoded;
  }
  const StageCounters::Timer timer(counters.transform_ns);
  worker.transformer->write(out);
  row.damage = worker.decoder.damage();
  row.state = row.damage.empty() ? SampleState::kGood : SampleState::kRepaired;
  if (!row.damage.empty()) row.damage.insert(0, source->path(row.raw.index) + ": ");
  return {};
} catch (const std::bad_alloc&) {
  return io::system_error(ENOMEM, "decode");
}

void BatchLoader::Impl::fail_row(BatchRow& row, io::Error error, std::byte* out) {
  row.state = SampleState::kBad;
  row.error = std::move(error);
  row.error.context = source->path(row.raw.index) + ": " + row.error.context;
  if (row.error.code == ErrorCode::kCancelled) return;  // by stop(): nobody gets this slot
  counters.bad_samples.fetch_add(1, std::memory_order_relaxed);
  io::log_warning("bad sample {}: {}", row.raw.index, row.error.message());
  if (options.bad_samples == BadSamples::kZero) std::memset(out, 0, sample_bytes);
}

BatchLoader::BatchLoader() = default;
BatchLoader::~BatchLoader() {
  if (!impl_) return;
  stop();
  if (impl_->feeder.joinable()) impl_->feeder.join();
}

Result<std::unique_ptr<BatchLoader>> BatchLoader::start(std::unique_ptr<SampleSource> source,
                                                        const BatchOptions& options) {
  if (Status status = check(options); !status) return tl::unexpected(std::move(status.error()));
  BatchOptions chosen = options;
  if (chosen.workers.threads == 0) chosen.workers.threads = usable_cores();
  std::unique_ptr<BatchLoader> loader(new BatchLoader);
  loader->impl_ = std::make_unique<Impl>(std::move(source), chosen);
  if (Status status = loader->impl_->set_up(); !status) return tl::unexpected(std::move(status.error()));
  loader->impl_->feeder = std::thread([impl = loader->impl_.get()] { impl->feed(); });
  return loader;
}

const Batch* BatchLoader::next() {
  Impl& impl = *impl_;
  if (!impl.status) return nullptr;
  const StageCounters::Timer timer(impl.counters.deliver_ns);
  Result<const Batch*> batch = impl.assembler->next();
  if (batch) return *batch;
  impl.status = tl::unexpected(std::move(batch.error()));
  stop();
  return nullptr;
}

Status BatchLoader::status() const {
  return impl_->status;
}

void BatchLoader::pause() {
  impl_->paused = true;
}

void BatchLoader::resume() {
  impl_->paused = false;
  impl_->gate.notify_all();
}

void BatchLoader::stop() {
  impl_->stopped = true;
  impl_->source->cancel();
  impl_->gate.notify_all();
  impl_->ring.close();
  impl_->workers.close();
}

StageReport BatchLoader::report() const {
  StageReport report = impl_->counters.report();
  report.threads = impl_->options.workers.threads;
  report.queue_capacity = kQueuedPerThread * impl_->options.workers.threads;
  return report;
}

}  // namespace headrace::decode
