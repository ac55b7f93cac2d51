// SPDX-License-Identifier: Apache-2.0
// Training batches in the order of the samples: decoded, transformed, normalised, in memory ready to be copied to a
// device.
//
//   auto source = read_from(*reader, store->catalog());
//   auto loader = BatchLoader::start(std::move(source), {.batch_size = 256, .seed = 1});
//   while (const Batch* batch = (*loader)->next()) train(batch->data, batch->labels);
//   if (!(*loader)->status()) report((*loader)->status().error());
//
//   LentBatch batch = (*loader)->lend();   // keeps its memory until `batch` goes, on whichever thread, whenever
//
// The samples of a batch stand in exactly the order of the source, whatever finished first, and what becomes of one
// depends on (seed, epoch, position, sample index) alone: a run repeats byte for byte with any number of threads. A
// batch never spans two epochs. To resume after a batch, start the reader at its `next_position`. An epoch that makes
// no batch, because all its samples were skipped or are too few for `drop_last`, says so by one of no rows: without it
// a consumer of epochs without end would wait for ever.
//
// The threads are those of Pipeline (pipeline.h). Memory: batch_count() batches.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headrace/decode/sample_source.h"
#include "headrace/decode/stage_report.h"
#include "headrace/decode/tensor.h"
#include "headrace/decode/transform.h"
#include "headrace/decode/worker_pool.h"

namespace headrace::decode {

// What becomes of a sample that cannot be read or decoded.
enum class BadSamples : std::uint8_t {
  kRaise,  // the loader ends; status() names the sample
  kSkip,   // left out, as if the order did not have it: the samples after it move up, batches stay full
  kZero,   // its row is all zero bytes and its state says so
};

enum class SampleState : std::uint8_t {
  kGood,
  kRepaired,  // the file was damaged and decoded nevertheless (DecodeOptions::damage)
  kBad,       // the row holds zero bytes (BadSamples::kZero)
};

// A sample that is bad, or was repaired.
struct SampleNote {
  std::uint64_t position = 0;  // within the epoch
  SampleIndex index = 0;
  SampleState state = SampleState::kBad;
  std::string reason;  // names the file
};

constexpr std::size_t kBatchSizeMax = 65'536;  // larger ones are no batches; keeps row numbers within 32 bits
constexpr std::size_t kBatchesAheadMax = 64;   // each one costs a batch of memory; 2 are enough
constexpr std::size_t kBatchesLentMax = 64;    // as much; a consumer that keeps more wants copies

struct Batch {
  std::uint64_t epoch = 0;
  std::uint64_t number = 0;         // within the epoch
  std::uint64_t next_position = 0;  // where in the epoch the next batch starts
  std::span<std::byte> data;        // labels.size() samples, one after the other
  std::vector<std::uint32_t> labels;
  std::vector<SampleIndex> indices;
  std::vector<SampleState> states;
  std::vector<ShownPart> shown;    // which part of which image each sample shows
  std::vector<EncodedPart> parts;  // BatchOptions::decode_elsewhere; a bad sample's has no bytes
  std::vector<SampleNote> notes;   // on samples of this batch, and on those that were skipped while it was filled
};

class BatchBuffers;
struct BatchBuffer;

// Gives the memory of a batch back to its loader.
class GiveBack {
 public:
  GiveBack() = default;
  GiveBack(std::shared_ptr<BatchBuffers> buffers, BatchBuffer& buffer)
      : buffers_(std::move(buffers)), buffer_(&buffer) {}
  void operator()(const Batch* batch) const;

 private:
  std::shared_ptr<BatchBuffers> buffers_;
  BatchBuffer* buffer_ = nullptr;
};

// A batch on loan: nobody writes its memory until it is destroyed, which any thread may do. It may outlive its loader.
using LentBatch = std::unique_ptr<const Batch, GiveBack>;

struct BatchOptions {
  std::size_t batch_size = 256;
  bool drop_last = false;  // leaves out an epoch's last batch if it is not full
  BadSamples bad_samples = BadSamples::kRaise;
  // Where an order repeats samples and deals them to several ranks (ra-sampler), give each rank a seed of its own:
  // ranks may have the same sample at the same position.
  std::uint64_t seed = 0;
  Transform transform = {};
  TensorFormat format = {};
  WorkerOptions workers = {};
  // Samples come as parts of JPEGs (Batch::parts), for a decoder elsewhere that also resizes and normalises; the
  // transform is then a geometry and a flip. Batches have no data, and take no memory in `memory`.
  bool decode_elsewhere = false;
  // Batches made ahead of the consumer, whatever it has. 2: one is filled while one waits; more only helps a consumer
  // that is uneven. 0: as many as may be lent and are not; for two at least, and not with kSkip.
  std::size_t batches_ahead = 2;
  // Batches that the consumer may have at once, each of which takes the memory of one. With so many out, lend() sleeps
  // until one comes back.
  std::size_t batches_lent = 1;
  // Where to put the batches, for instance pinned memory: batch_count() spans of batch_bytes() each, aligned to the
  // element, alive as long as the loader and all that it lent. Empty: own page-aligned memory.
  std::vector<std::span<std::byte>> memory;
  std::uint64_t first_batch = 0;  // the number that the first batch gets (resume)
};

// How many batches the loader has memory for (batches_ahead + batches_lent, one more with kSkip), and what each takes.
[[nodiscard]] std::size_t batch_count(const BatchOptions& options);
[[nodiscard]] std::size_t batch_bytes(const BatchOptions& options);

// Thread-safety: next(), lend(), lend_until() and status() from one thread; the others from any thread. Destruction
// stops and joins.
class BatchLoader {
 public:
  // Errors: kInvalidArgument; kSystem with ENOMEM.
  [[nodiscard]] static Result<std::unique_ptr<BatchLoader>> start(std::unique_ptr<SampleSource> source,
                                                                  const BatchOptions& options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // Valid until the next call, which gives it back. nullptr: all epochs done, stopped, or a bad sample ended it;
  // status() tells.
  [[nodiscard]] const Batch* next();
  // The same batch on loan, for a consumer that keeps several or gives them back later.
  [[nodiscard]] LentBatch lend();
  // The same, for a consumer that has other things to look after. Errors: kTimedOut; the next call goes on where this
  // one was.
  [[nodiscard]] Result<LentBatch> lend_until(std::chrono::steady_clock::time_point deadline);
  // Good unless a bad sample ended the loader (BadSamples::kRaise).
  [[nodiscard]] Status status() const;

  // Takes no further samples from the source until resume(); what is under way is finished.
  void pause();
  void resume();
  // Cancels the source and ends next(), now and later.
  void stop();

  [[nodiscard]] StageReport report() const;

 private:
  BatchLoader();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::decode
