// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/pipeline.h"

#include <new>
#include <thread>
#include <utility>

#include <pthread.h>

#include "headrace/decode/slot_ring.h"
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
      : source(std::move(sample_source)), ring(slot_count), workers(options.workers, slot_count) {}

  void feed();
  void run(Worker& worker, std::uint32_t place) noexcept override;
  Status decode(Worker& worker, const RawSample& raw, Image& image) const;

  std::unique_ptr<SampleSource> source;
  SlotRing<Slot> ring;
  WorkerPool workers;
  std::thread feeder;
  bool holds_front = false;  // the consumer has a slot that it has not given back
};

void Pipeline::Impl::feed() {
  pthread_setname_np(pthread_self(), "hr-feed");
  while (std::optional<RawSample> raw = source->next()) {
    Slot* slot = ring.acquire();
    if (slot == nullptr) return;
    slot->raw = std::move(*raw);
    const auto place = static_cast<std::uint32_t>(slot - ring.slots().data());
    if (!workers.submit({this, place})) return;
  }
  ring.finish();
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

Status Pipeline::Impl::decode(Worker& worker, const RawSample& raw, Image& image) const {
  if (!raw.bytes) return tl::unexpected(raw.bytes.error());
  Status status;
  try {
    status = worker.decoder.decode(*raw.bytes, image);
  } catch (const std::bad_alloc&) {
    status = io::system_error(ENOMEM, "decode");
  }
  if (!status) status.error().context = source->path(raw.index) + ": " + status.error().context;
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
  Slot* slot = impl.ring.front();
  impl.holds_front = slot != nullptr;
  return slot != nullptr ? &slot->decoded : nullptr;
}

void Pipeline::stop() {
  impl_->source->cancel();
  impl_->ring.close();
  impl_->workers.close();
}

}  // namespace headrace::decode
