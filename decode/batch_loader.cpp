// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/batch_loader.h"

#include <cstring>
#include <optional>
#include <utility>

#include "headrace/decode/internal/batch_assembler.h"
#include "headrace/decode/internal/batch_buffers.h"
#include "headrace/decode/internal/decode_line.h"
#include "headrace/decode/internal/skipped_rows.h"
#include "headrace/decode/sample_transformer.h"
#include "headrace/decode/usable_cores.h"
#include "headrace/io/log.h"

namespace headrace::decode {
namespace {

using io::ErrorCode;
using io::make_error;

// Samples that wait for a decoder thread. More would only pin more of the cache's memory.
constexpr std::size_t kQueuedPerThread = 4;

Status check_memory(const BatchOptions& options) {
  if (options.memory.empty()) return {};
  if (options.memory.size() != batch_count(options)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "memory for " + std::to_string(batch_count(options)) + " batches is needed");
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
  // Rows that move up need two batches beside those that are lent: one to be filled and one to be decoded.
  const bool enough = options.batches_lent > 1 && options.bad_samples != BadSamples::kSkip;
  if (options.batches_ahead > kBatchesAheadMax || (options.batches_ahead == 0 && !enough)) {
    return make_error(ErrorCode::kInvalidArgument, "batches ahead must be 1 to " + std::to_string(kBatchesAheadMax) +
                                                       ", or 0 where two may be lent and no sample is skipped");
  }
  if (options.batches_lent == 0 || options.batches_lent > kBatchesLentMax) {
    return make_error(ErrorCode::kInvalidArgument, "batches lent must be 1 to " + std::to_string(kBatchesLentMax));
  }
  HEADRACE_TRY_DO(check(options.transform));
  if (options.decode_elsewhere && (options.transform.jitter || options.transform.augment)) {
    return make_error(ErrorCode::kInvalidArgument, "colours change where the pixels are: not before they are decoded");
  }
  return check_memory(options);
}

}  // namespace

std::size_t batch_count(const BatchOptions& options) {
  return options.batches_ahead + options.batches_lent + (options.bad_samples == BadSamples::kSkip ? 1 : 0);
}

std::size_t batch_bytes(const BatchOptions& options) {
  if (options.decode_elsewhere) return 0;
  const Size size = output_size(options.transform.geometry);
  return options.batch_size * static_cast<std::size_t>(size.pixels()) * Image::kChannels *
         element_bytes(options.format.type);
}

// One group a batch: the pixels of its rows go to a buffer that the group has until the consumer takes it.
struct BatchLoader::Impl final : RowDecoder {
  Impl(std::unique_ptr<SampleSource> source, const BatchOptions& batch_options);
  ~Impl() override;
  // Errors: kSystem with ENOMEM.
  Status set_up();
  AssemblyOptions assembly_options() const;
  // Errors: kTimedOut, kCancelled (stopped), a bad sample's.
  Result<LentBatch> lend_until(std::chrono::steady_clock::time_point deadline);

  bool begin_group(RowGroup& group) override;
  Status decode_row(Worker& worker, RowGroup& group, std::size_t number) override;
  Status cut_row(Worker& worker, Row& row);
  RandomKey key_of(const RawSample& raw) const {
    return {.seed = options.seed, .epoch = raw.epoch, .position = raw.position, .sample = raw.index};
  }
  void handle_bad_row(const RowGroup& group, std::size_t number) override;
  std::byte* memory_of(const RowGroup& group, std::size_t number) const {
    return &group.buffer->memory[number * sample_bytes];
  }

  // Constant after start.
  const BatchOptions options;
  const TensorWriter writer;
  const std::size_t sample_bytes;

  // Synchronise themselves.
  std::shared_ptr<BatchBuffers> buffers;
  SkippedRows skipped;

  // The consumer's.
  std::optional<BatchAssembler> assembler;
  Status status;
  LentBatch handed_out;  // by next()

  DecodeLine line;
};

BatchLoader::Impl::Impl(std::unique_ptr<SampleSource> source, const BatchOptions& batch_options)
    : options(batch_options),
      writer(batch_options.format),
      sample_bytes(batch_bytes(batch_options) / batch_options.batch_size),
      line(std::move(source),
           {.workers = batch_options.workers,
            .groups = batch_options.batches_ahead + batch_options.batches_lent,
            .rows_per_group = batch_options.batch_size,
            .queued_rows = kQueuedPerThread * batch_options.workers.threads},
           *this) {}

// The line, which is destroyed next, waits for its feeder, which may wait for a buffer.
BatchLoader::Impl::~Impl() {
  if (buffers) buffers->close();
}

Status BatchLoader::Impl::set_up() {
  HEADRACE_TRY(allocated, BatchBuffers::allocate(options.memory, batch_count(options), batch_bytes(options),
                                                 options.batches_lent));
  buffers = std::move(allocated);
  assembler.emplace(line, buffers, skipped, assembly_options());
  return {};
}

AssemblyOptions BatchLoader::Impl::assembly_options() const {
  return {.batch_size = options.batch_size,
          .sample_bytes = sample_bytes,
          .drop_last = options.drop_last,
          .bad_samples = options.bad_samples,
          .first_batch = options.first_batch};
}

Result<LentBatch> BatchLoader::Impl::lend_until(std::chrono::steady_clock::time_point deadline) {
  HEADRACE_TRY_DO(buffers->await_loan(deadline));
  return assembler->next(deadline);
}

bool BatchLoader::Impl::begin_group(RowGroup& group) {
  group.target_rows = skipped.take_group_rows(group.epoch, options.batch_size);
  group.buffer = buffers->take();
  return group.buffer != nullptr;
}

Status BatchLoader::Impl::decode_row(Worker& worker, RowGroup& group, std::size_t number) {
  if (!worker.transformer) worker.transformer.emplace(options.transform, writer);
  if (options.decode_elsewhere) return cut_row(worker, group.rows[number]);
  const RawSample& raw = group.rows[number].raw;
  {
    const StageCounters::Timer timer(line.counters().decode_ns);
    HEADRACE_TRY_DO(raw.plan ? worker.transformer->decode(worker.decoder, *raw.bytes, *raw.plan)
                             : worker.transformer->decode(worker.decoder, *raw.bytes, key_of(raw)));
  }
  group.rows[number].shown = worker.transformer->shown();
  const StageCounters::Timer timer(line.counters().transform_ns);
  worker.transformer->write(memory_of(group, number));
  return {};
}

Status BatchLoader::Impl::cut_row(Worker& worker, Row& row) {
  const StageCounters::Timer timer(line.counters().decode_ns);
  SampleTransformer& transformer = *worker.transformer;
  HEADRACE_TRY_DO(row.raw.plan ? transformer.cut(worker.decoder, *row.raw.bytes, *row.raw.plan, row.part)
                               : transformer.cut(worker.decoder, *row.raw.bytes, key_of(row.raw), row.part));
  row.shown = transformer.shown();
  return {};
}

void BatchLoader::Impl::handle_bad_row(const RowGroup& group, std::size_t number) {
  const Row& row = group.rows[number];
  io::log_warning("bad sample {}: {}", row.raw.index, row.status.error().message());
  if (options.bad_samples != BadSamples::kZero || options.decode_elsewhere) return;
  std::memset(memory_of(group, number), 0, sample_bytes);
}

BatchLoader::BatchLoader() = default;
BatchLoader::~BatchLoader() = default;

Result<std::unique_ptr<BatchLoader>> BatchLoader::start(std::unique_ptr<SampleSource> source,
                                                        const BatchOptions& options) {
  HEADRACE_TRY_DO(check(options));
  BatchOptions chosen = options;
  if (chosen.workers.threads == 0) chosen.workers.threads = usable_cores();
  std::unique_ptr<BatchLoader> loader(new BatchLoader);
  loader->impl_ = std::make_unique<Impl>(std::move(source), chosen);
  HEADRACE_TRY_DO(loader->impl_->set_up());
  loader->impl_->line.start();
  return loader;
}

const Batch* BatchLoader::next() {
  impl_->handed_out.reset();
  impl_->handed_out = lend();
  return impl_->handed_out.get();
}

LentBatch BatchLoader::lend() {
  Result<LentBatch> batch = lend_until(std::chrono::steady_clock::time_point::max());
  return batch ? std::move(*batch) : LentBatch();
}

Result<LentBatch> BatchLoader::lend_until(std::chrono::steady_clock::time_point deadline) {
  Impl& impl = *impl_;
  if (!impl.status) return LentBatch();
  const StageCounters::Timer timer(impl.line.counters().deliver_ns);
  Result<LentBatch> batch = impl.lend_until(deadline);
  if (batch || batch.error().code == ErrorCode::kTimedOut) return batch;
  if (batch.error().code == ErrorCode::kCancelled) return LentBatch();  // stopped
  impl.status = io::forward_error(std::move(batch));
  stop();
  return LentBatch();
}

Status BatchLoader::status() const {
  return impl_->status;
}

void BatchLoader::pause() {
  impl_->line.pause();
}

void BatchLoader::resume() {
  impl_->line.resume();
}

void BatchLoader::stop() {
  impl_->line.stop();
  impl_->buffers->close();
}

StageReport BatchLoader::report() const {
  return impl_->line.report();
}

}  // namespace headrace::decode
