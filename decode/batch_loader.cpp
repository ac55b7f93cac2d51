// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/batch_loader.h"

#include <cstring>
#include <optional>
#include <utility>

#include "headrace/decode/internal/batch_assembler.h"
#include "headrace/decode/internal/decode_line.h"
#include "headrace/decode/internal/skipped_rows.h"
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
  HEADRACE_TRY_DO(check(options.transform));
  return check_memory(options);
}

}  // namespace

std::size_t batch_bytes(const BatchOptions& options) {
  const Size size = output_size(options.transform.geometry);
  return options.batch_size * static_cast<std::size_t>(size.pixels()) * Image::kChannels *
         element_bytes(options.format.type);
}

// One group a batch: its rows lie in the memory at the group's place.
struct BatchLoader::Impl final : RowDecoder {
  Impl(std::unique_ptr<SampleSource> source, const BatchOptions& batch_options);
  // Gives every group its memory. Errors: kSystem with ENOMEM.
  Status set_up();
  AssemblyOptions assembly_options() const;

  void begin_group(RowGroup& group) override;
  Status decode_row(Worker& worker, const RawSample& raw, RowPlace place) override;
  void handle_bad_row(const Row& row, RowPlace place) override;
  std::byte* memory_of(RowPlace place) const { return &memory[place.group][place.number * sample_bytes]; }

  // Constant after start.
  const BatchOptions options;
  const TensorWriter writer;
  const std::size_t sample_bytes;
  std::vector<io::Buffer> buffers;
  std::vector<std::span<std::byte>> memory;  // of each group; with kSkip, one more for the assembler

  SkippedRows skipped;

  // The consumer's.
  std::optional<BatchAssembler> assembler;
  Status status;

  DecodeLine line;
};

BatchLoader::Impl::Impl(std::unique_ptr<SampleSource> source, const BatchOptions& batch_options)
    : options(batch_options),
      writer(batch_options.format),
      sample_bytes(batch_bytes(batch_options) / batch_options.batch_size),
      memory(batch_options.memory),
      line(std::move(source),
           {.workers = batch_options.workers,
            .groups = batch_options.batches_ahead + 1,
            .rows_per_group = batch_options.batch_size,
            .queued_rows = kQueuedPerThread * batch_options.workers.threads},
           *this) {}

Status BatchLoader::Impl::set_up() {
  while (memory.size() < memories_needed(options)) {
    HEADRACE_TRY(buffer, io::Buffer::allocate(batch_bytes(options)));
    memory.emplace_back(buffer.data(), batch_bytes(options));
    buffers.push_back(std::move(buffer));
  }
  assembler.emplace(line, skipped, assembly_options());
  return {};
}

AssemblyOptions BatchLoader::Impl::assembly_options() const {
  return {.batch_size = options.batch_size,
          .sample_bytes = sample_bytes,
          .drop_last = options.drop_last,
          .bad_samples = options.bad_samples,
          .first_batch = options.first_batch,
          .memory = memory};
}

void BatchLoader::Impl::begin_group(RowGroup& group) {
  group.target_rows = skipped.take_group_rows(group.epoch, options.batch_size);
}

Status BatchLoader::Impl::decode_row(Worker& worker, const RawSample& raw, RowPlace place) {
  if (!worker.transformer) worker.transformer.emplace(options.transform, writer);
  const RandomKey key = {.seed = options.seed, .epoch = raw.epoch, .position = raw.position, .sample = raw.index};
  {
    const StageCounters::Timer timer(line.counters().decode_ns);
    HEADRACE_TRY_DO(worker.transformer->decode(worker.decoder, *raw.bytes, key));
  }
  const StageCounters::Timer timer(line.counters().transform_ns);
  worker.transformer->write(memory_of(place));
  return {};
}

void BatchLoader::Impl::handle_bad_row(const Row& row, RowPlace place) {
  io::log_warning("bad sample {}: {}", row.raw.index, row.status.error().message());
  if (options.bad_samples == BadSamples::kZero) std::memset(memory_of(place), 0, sample_bytes);
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
  Impl& impl = *impl_;
  if (!impl.status) return nullptr;
  const StageCounters::Timer timer(impl.line.counters().deliver_ns);
  Result<const Batch*> batch = impl.assembler->next();
  if (batch) return *batch;
  impl.status = io::forward_error(std::move(batch));
  stop();
  return nullptr;
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
}

StageReport BatchLoader::report() const {
  return impl_->line.report();
}

}  // namespace headrace::decode
