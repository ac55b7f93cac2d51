// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/pipeline.h"

#include <string>
#include <utility>
#include <vector>

#include "headrace/decode/internal/decode_line.h"
#include "headrace/decode/usable_cores.h"

namespace headrace::decode {

// One row a group: its image lies at the group's place.
struct Pipeline::Impl final : RowDecoder {
  Impl(std::unique_ptr<SampleSource> source, const WorkerOptions& workers, std::size_t images_ahead)
      : samples(images_ahead),
        line(std::move(source), {.workers = workers, .groups = images_ahead, .queued_rows = images_ahead}, *this) {}

  bool begin_group(RowGroup& group) override {
    group.target_rows = 1;
    return true;
  }

  Status decode_row(Worker& worker, RowGroup& group, std::size_t number) override {
    const StageCounters::Timer timer(line.counters().decode_ns);
    return worker.decoder.decode(*group.rows[number].raw.bytes, samples[line.place_of(group)].image);
  }

  void handle_bad_row(const RowGroup&, std::size_t) override {}  // next() hands it out with its status

  std::vector<DecodedSample> samples;
  bool holds_front = false;  // the consumer has a sample that it has not given back
  DecodeLine line;
};

Pipeline::Pipeline() = default;
Pipeline::~Pipeline() = default;

Result<std::unique_ptr<Pipeline>> Pipeline::start(std::unique_ptr<SampleSource> source,
                                                  const PipelineOptions& options) {
  constexpr std::size_t kImagesAheadMax = 4096;  // far more than hides any jitter, and within what the queue can hold
  if (options.images_ahead > kImagesAheadMax) {
    return io::make_error(io::ErrorCode::kInvalidArgument, "images_ahead over " + std::to_string(kImagesAheadMax));
  }
  WorkerOptions workers = options.workers;
  if (workers.threads == 0) workers.threads = usable_cores();
  const std::size_t images = options.images_ahead > 0 ? options.images_ahead : std::size_t{4} * workers.threads;
  std::unique_ptr<Pipeline> pipeline(new Pipeline);
  pipeline->impl_ = std::make_unique<Impl>(std::move(source), workers, images);
  pipeline->impl_->line.start();
  return pipeline;
}

const DecodedSample* Pipeline::next() {
  Impl& impl = *impl_;
  if (std::exchange(impl.holds_front, false)) impl.line.release();
  const StageCounters::Timer timer(impl.line.counters().deliver_ns);
  RowGroup* group = impl.line.front();
  if (group == nullptr) return nullptr;
  impl.holds_front = true;
  Row& row = group->rows.front();
  DecodedSample& sample = impl.samples[impl.line.place_of(*group)];
  sample.epoch = row.raw.epoch;
  sample.position = row.raw.position;
  sample.index = row.raw.index;
  sample.label = row.raw.label;
  sample.encoded_bytes = row.raw.bytes ? row.raw.bytes->size() : 0;
  sample.status = std::move(row.status);
  sample.damage = std::move(row.damage);
  return &sample;
}

void Pipeline::stop() {
  impl_->line.stop();
}

StageReport Pipeline::report() const {
  return impl_->line.report();
}

}  // namespace headrace::decode
