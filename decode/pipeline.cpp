// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/pipeline.h"

#include <cerrno>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <pthread.h>

#include "headrace/decode/internal/slot_ring.h"
#include "headrace/decode/usable_cores.h"

namespace headrace::decode {
namespace {

struct Slot {
  RawSample raw;
  DecodedSample decoded;
};

}  // namespace

struct Pipeline::Impl final : Job {
  Impl(std::unique_ptr<SampleSource> sample_source, const PipelineOptions& options, std::size_t slot_count)
      : source(std::move(sample_source)),
        ring(slot_count),
        thread_count(options.workers.threads),
        workers(options.workers, slot_count, counters) {}

  void feed();
  std::optional<RawSample> next_raw();
  bool submit(RawSample raw);
  void run(Worker& worker, std::uint32_t place) noexcept override;
  Status decode(Worker& worker, const RawSample& raw, Image& image);

  std::unique_ptr<SampleSource> source;
  StageCounters counters;
  SlotRing<Slot> ring;
  const unsigned thread_count;
  WorkerPool workers;
  std::thread feeder;
  bool holds_front = false;  // the consumer has a slot that it has not given back
};

void Pipeline::Impl::feed() {
  pthread_setname_np(pthread_self(), "hr-feed");
  while (std::optional<RawSample> raw = next_raw()) {
    if (!submit(std::move(*raw))) return;  // stopped
  }
  ring.finish();
}

std::optional<RawSample> Pipeline::Impl::next_raw() {
  const StageCounters::Timer timer(counters.read_ns);
  return source->next();
}

bool Pipeline::Impl::submit(RawSample raw) {
  const StageCounters::Timer timer(counters.held_back_ns);
  Slot* slot = ring.acquire();
  if (slot == nullptr) return false;
  slot->raw = std::move(raw);
  return workers.submit({this, static_cast<std::uint32_t>(slot - ring.slots().data())});
}

void Pipeline::Impl::run(Worker& worker, std::uint32_t place) noexcept {
  Slot& slot = ring.slots()[place];
  DecodedSample& decoded = slot.decoded;
  decoded.epoch = slot.raw.epoch;
  decoded.position = slot.raw.position;
  decoded.index = slot.raw.index;
  decoded.label = slot.raw.label;
  decoded.encoded_bytes = slot.raw.bytes ? slot.raw.bytes->size() : 0;
  decoded.status = decode(worker, slot.raw, decoded.image);
  decoded.damage = decoded.status ? worker.decoder.damage() : std::string();
  slot.raw.pin.reset();  // lets the cache have its memory back
  ring.complete(slot);
}

Status Pipeline::Impl::decode(Worker& worker, const RawSample& raw, Image& image) {
  counters.count_sample(raw.bytes ? raw.bytes->size() : 0, raw.served_from, workers.queue_depth());
  const StageCounters::Timer timer(counters.decode_ns);
  Status status;
  try {
    status = raw.bytes ? worker.decoder.decode(*raw.bytes, image) : tl::unexpected(raw.bytes.error());
  } catch (const std::bad_alloc&) {
    status = io::system_error(ENOMEM, "decode");
  }
  if (status || status.error().code == io::ErrorCode::kCancelled) return status;
  counters.bad_samples.fetch_add(1, std::memory_order_relaxed);
  status.error().context = source->path(raw.index) + ": " + status.error().context;
  return status;
}

Pipeline::Pipeline() = default;
Pipeline::~Pipeline() {
  stop();
  impl_->feeder.join();
}

Result<std::unique_ptr<Pipeline>> Pipeline::start(std::unique_ptr<SampleSource> source,
                                                  const PipelineOptions& options) {
  constexpr std::size_t kImagesAheadMax = 4096;  // far more than hides any jitter, and within what the queue can hold
  if (options.images_ahead > kImagesAheadMax) {
    return io::make_error(io::ErrorCode::kInvalidArgument, "images_ahead over " + std::to_string(kImagesAheadMax));
  }
  std::unique_ptr<Pipeline> pipeline(new Pipeline);
  PipelineOptions chosen = options;
  if (chosen.workers.threads == 0) chosen.workers.threads = usable_cores();
  const std::size_t slots = chosen.images_ahead > 0 ? chosen.images_ahead : std::size_t{4} * chosen.workers.threads;
  pipeline->impl_ = std::make_unique<Impl>(std::move(source), chosen, slots);
  pipeline->impl_->feeder = std::thread([impl = pipeline->impl_.get()] { impl->feed(); });
  return pipeline;
}

const DecodedSample* Pipeline::next() {
  Impl& impl = *impl_;
  if (std::exchange(impl.holds_front, false)) impl.ring.release();
  const StageCounters::Timer timer(impl.counters.deliver_ns);
  Slot* slot = impl.ring.front();
  impl.holds_front = slot != nullptr;
  return slot != nullptr ? &slot->decoded : nullptr;
}

void Pipeline::stop() {
  impl_->source->cancel();
  impl_->ring.close();
  impl_->workers.close();
}

StageReport Pipeline::report() const {
  StageReport report = impl_->counters.report();
  report.threads = impl_->thread_count;
  report.queue_capacity = impl_->ring.slot_count();
  return report;
}

}  // namespace headrace::decode
