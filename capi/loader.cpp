// SPDX-License-Identifier: Apache-2.0
#include "headrace/capi/internal/loader.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "headrace/io/mutex.h"

namespace headrace::capi {
namespace {

using io::ErrorCode;
using io::make_error;

// The samples of one epoch, as the caller has drawn them.
class ListedOrder final : public cache::Order {
 public:
  ListedOrder(std::uint64_t epoch, std::vector<cache::SampleIndex> samples)
      : epoch_(epoch), samples_(std::move(samples)) {}

  [[nodiscard]] const std::string& spec() const override { return spec_; }
  [[nodiscard]] std::uint64_t length(std::uint64_t epoch) const override {
    return epoch == epoch_ ? samples_.size() : 0;
  }
  [[nodiscard]] io::Result<std::vector<cache::SampleIndex>> epoch(std::uint64_t epoch) const override {
    if (epoch == epoch_) return samples_;
    return make_error(ErrorCode::kInvalidArgument, "the list is of epoch " + std::to_string(epoch_));
  }

 private:
  const std::string spec_ = "listed";
  const std::uint64_t epoch_;
  const std::vector<cache::SampleIndex> samples_;
};

io::Result<std::unique_ptr<cache::Order>> open_order(const Dataset& dataset, const hr_loader_options& options) {
  if (options.order != nullptr) return dataset.order(options.order);
  return std::make_unique<ListedOrder>(
      options.first_epoch, std::vector<cache::SampleIndex>(options.indices, options.indices + options.index_count));
}

io::Result<Parts> open_parts(std::shared_ptr<Dataset> dataset, const hr_loader_options& options) {
  HEADRACE_TRY(order, open_order(*dataset, options));
  const std::uint64_t epochs = options.epochs == 0 ? UINT64_MAX - options.first_epoch : options.epochs;
  HEADRACE_TRY(reader, cache::Reader::open(*dataset->store, *order,
                                           {.first_epoch = options.first_epoch,
                                            .epochs = epochs,
                                            .first_position = options.first_position,
                                            .window_bytes = options.window_bytes,
                                            .records = dataset->records}));
  return Parts{std::move(dataset), std::move(order), std::move(reader)};
}

class ImageBatches final : public Batches {
 public:
  ImageBatches(std::shared_ptr<SlotMemory> memory, const hr_loader_options& options,
               const decode::BatchOptions& batches, std::unique_ptr<decode::BatchLoader> loader)
      : memory_(std::move(memory)),
        size_(decode::output_size(batches.transform.geometry)),
        channels_last_(options.layout == HR_CHANNELS_LAST),
        element_type_(options.element_type),
        sample_bytes_(decode::batch_bytes(batches) / batches.batch_size),
        positions_(positions_of(options)),
        lent_max_(batches.batches_lent),
        batch_size_(batches.batch_size),
        loader_(std::move(loader)) {}

  io::Result<std::unique_ptr<BatchHandle>> next(Deadline deadline) override {
    HEADRACE_TRY(lent, loader_->lend_until(deadline));
    if (lent != nullptr) {
      std::unique_ptr<BatchHandle> handle = handle_of(std::move(lent));
      HEADRACE_TRY_DO(lend_or_copy(*handle));
      return handle;
    }
    HEADRACE_TRY_DO(loader_->status());
    return std::unique_ptr<BatchHandle>();
  }
  void stop() override { loader_->stop(); }
  decode::StageReport report() const override { return loader_->report(); }
  std::uint64_t copied() const override { return copied_; }

 private:
  std::unique_ptr<BatchHandle> handle_of(decode::LentBatch lent) const;
  io::Status lend_or_copy(BatchHandle& handle);

  const std::shared_ptr<SlotMemory> memory_;
  const decode::Size size_;
  const bool channels_last_;
  const std::int32_t element_type_;
  const std::uint64_t sample_bytes_;
  const Positions positions_;
  const std::uint64_t lent_max_;
  const std::size_t batch_size_;
  const std::shared_ptr<std::atomic<std::uint64_t>> lent_count_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  std::atomic<std::uint64_t> copied_ = 0;
  const std::unique_ptr<decode::BatchLoader> loader_;
};

// The last slot that may be lent is kept for copying out of it, so that a consumer that keeps all batches never waits
// for what only it could give back.
io::Status ImageBatches::lend_or_copy(BatchHandle& handle) {
  if (lent_count_->load() + 1 < lent_max_) {
    lent_count_->fetch_add(1);
    handle.lent_count = lent_count_;
    return {};
  }
  const std::size_t bytes = batch_size_ * sample_bytes_;
  HEADRACE_TRY(own, SlotMemory::allocate(1, bytes, batch_size_));
  std::byte* const images = own->images()[0].data();
  if (handle.images != nullptr) std::memcpy(images, handle.images, handle.count * sample_bytes_);
  handle.copy_contents();
  std::copy_n(handle.labels, handle.count, own->labels(images));
  std::copy_n(handle.indices, handle.count, own->indices(images));
  handle.own_states.assign(handle.states, handle.states + handle.count);
  handle.images = handle.images == nullptr ? nullptr : images;
  handle.labels = own->labels(images);
  handle.indices = own->indices(images);
  handle.states = handle.own_states.data();
  handle.copied = 1;
  handle.lent.reset();
  handle.memory = std::move(own);
  ++copied_;
  return {};
}

hr_crop crop_of(const decode::ShownPart& shown) {
  const decode::CropPlan& plan = shown.plan;
  return {.image_width = shown.image.width,
          .image_height = shown.image.height,
          .x = plan.part.x,
          .y = plan.part.y,
          .width = plan.part.width,
          .height = plan.part.height,
          .target_x = plan.target_x,
          .target_y = plan.target_y,
          .target_width = plan.target.width,
          .target_height = plan.target.height,
          .mirrored = plan.mirror ? 1U : 0U};
}

hr_window window_of(const decode::EncodedPart& encoded) {
  const decode::Box& box = encoded.box;
  const decode::RealBox& part = encoded.part;
  return {.x = double(box.x),
          .y = double(box.y),
          .width = double(box.width),
          .height = double(box.height),
          .part_x = part.x,
          .part_y = part.y,
          .part_width = part.width,
          .part_height = part.height};
}

std::unique_ptr<BatchHandle> ImageBatches::handle_of(decode::LentBatch lent) const {
  auto handle = std::make_unique<BatchHandle>();
  const decode::Batch& batch = *lent;
  handle->epoch = batch.epoch;
  handle->next_position = positions_.done_before(batch.next_position);
  handle->count = batch.labels.size();
  handle->sample_bytes = sample_bytes_;
  handle->images = sample_bytes_ == 0 ? nullptr : batch.data.data();
  handle->labels = memory_->labels(batch.data.data());
  handle->indices = memory_->indices(batch.data.data());
  handle->states = reinterpret_cast<const std::uint8_t*>(batch.states.data());
  std::copy(batch.labels.begin(), batch.labels.end(), handle->labels);
  std::copy(batch.indices.begin(), batch.indices.end(), handle->indices);
  for (const decode::ShownPart& shown : batch.shown) handle->all_crops.push_back(crop_of(shown));
  for (const decode::EncodedPart& part : batch.parts) {
    handle->bytes.push_back({part.bytes.empty() ? nullptr : part.bytes.data(), part.bytes.size()});
    handle->all_windows.push_back(window_of(part));
  }
  for (const decode::SampleNote& note : batch.notes) {
    handle->all_notes.push_back({note.position, note.index, static_cast<std::int32_t>(note.state), nullptr});
    handle->reasons.push_back(note.reason);
  }
  const std::int64_t count = static_cast<std::int64_t>(handle->count);
  const std::int64_t height = size_.height;
  const std::int64_t width = size_.width;
  handle->shape = {count, 3, height, width};
  if (channels_last_) handle->shape = {count, height, width, 3};
  handle->element_type = element_type_;
  handle->memory = memory_;
  handle->lent = std::move(lent);
  handle->finish();
  return handle;
}

std::optional<TorchDraws> torch_draws(const hr_loader_options& options, const decode::BatchOptions& batches) {
  if (options.draw != HR_DRAW_AS_TORCH) return std::nullopt;
  return TorchDraws({.seed = options.torch_seed,
                     .workers = options.torch_workers,
                     .batch_size = options.batch_size,
                     .crop = std::get<decode::RandomResizedCrop>(batches.transform.geometry),
                     .flip_probability = options.flip_probability,
                     .decode = batches.workers.decode});
}

io::Status check_indices(const Dataset& dataset, const hr_loader_options& options) {
  if (options.indices == nullptr) return {};
  const std::uint64_t count = dataset.sample_count();
  const std::uint32_t* end = options.indices + options.index_count;
  const std::uint32_t* bad = std::find_if(options.indices, end, [&](std::uint32_t index) { return index >= count; });
  if (bad == end) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    "index " + std::to_string(*bad) + " at position " + std::to_string(bad - options.indices) +
                        " is out of range: the data set has " + std::to_string(count) + " samples");
}

}  // namespace

io::Result<std::unique_ptr<Batches>> image_batches(Parts& parts, const hr_loader_options& options) {
  decode::BatchOptions batches = batch_options(options);
  HEADRACE_TRY_DO(decode::check(batches.transform));
  HEADRACE_TRY(memory,
               SlotMemory::allocate(decode::batch_count(batches), decode::batch_bytes(batches), batches.batch_size));
  batches.memory = memory->images();
  auto source = std::make_unique<PositionSource>(decode::read_from(*parts.reader, parts.dataset->catalog()),
                                                 positions_of(options), torch_draws(options, batches));
  HEADRACE_TRY(loader, decode::BatchLoader::start(std::move(source), batches));
  return std::make_unique<ImageBatches>(std::move(memory), options, batches, std::move(loader));
}

}  // namespace headrace::capi

using headrace::capi::fail;
using headrace::capi::guarded;

struct hr_loader {
  const headrace::capi::Home home;
  headrace::capi::Parts parts;
  headrace::io::Mutex one_at_a_time;
  std::unique_ptr<headrace::capi::Batches> batches;  // last: destroyed first
};

int32_t hr_loader_open(hr_dataset* dataset, const hr_loader_options* options, hr_loader** loader) {
  using namespace headrace::capi;
  bool out_of_range = false;
  *loader = nullptr;
  if (dataset == nullptr) return fail(HR_INVALID_ARGUMENT, "a loader needs a data set, not NULL");
  if (!dataset->shared->home.is_here()) {
    return fail(HR_FORKED, "this data set belongs to the parent process; open it and the loader here");
  }
  const int32_t status = guarded([&]() -> headrace::io::Status {
    constexpr uint64_t kLeast = offsetof(hr_loader_options, reserved) + sizeof(uint32_t);
    HEADRACE_TRY(known, known_part(options, kLeast, "hr_loader_options"));
    HEADRACE_TRY_DO(check(known));
    if (dataset->shared->records && known.content != HR_CONTENT_BYTES) {
      return headrace::io::make_error(headrace::io::ErrorCode::kInvalidArgument,
                                      "content: records are bytes, whatever these hold; set HR_CONTENT_BYTES");
    }
    headrace::io::Status in_range = check_indices(*dataset->shared, known);
    out_of_range = !in_range;
    if (out_of_range) return in_range;
    auto made = std::make_unique<hr_loader>();
    HEADRACE_TRY(parts, open_parts(dataset->shared, known));
    made->parts = std::move(parts);
    HEADRACE_TRY(batches, known.content == HR_CONTENT_BYTES ? byte_batches(made->parts, known)
                                                            : image_batches(made->parts, known));
    made->batches = std::move(batches);
    *loader = made.release();
    return {};
  });
  return out_of_range && status == HR_INVALID_ARGUMENT ? HR_OUT_OF_RANGE : status;
}

void hr_loader_close(hr_loader* loader) {
  if (loader != nullptr && loader->home.is_here()) delete loader;
}

int32_t hr_loader_next(hr_loader* loader, uint32_t timeout_ms, hr_batch** batch) {
  *batch = nullptr;
  if (loader == nullptr) return fail(HR_INVALID_ARGUMENT, "a batch needs a loader, not NULL; was it closed?");
  if (!loader->home.is_here()) return fail(HR_FORKED, "this loader belongs to the parent process; open one here");
  bool ended = false;
  bool timed_out = false;
  int32_t status = guarded([&]() -> headrace::io::Status {
    const headrace::io::MutexLock lock(loader->one_at_a_time);
    auto next = loader->batches->next(std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms));
    timed_out = !next && next.error().code == headrace::io::ErrorCode::kTimedOut;
    if (timed_out) return {};
    if (!next) return headrace::io::forward_error(std::move(next));
    ended = *next == nullptr;
    *batch = next->release();
    return {};
  });
  if (timed_out) return HR_TIMED_OUT;
  // What was wrong with a sample. The caller's own words were judged when the loader was opened.
  if (status == HR_UNSUPPORTED || status == HR_INVALID_ARGUMENT) status = HR_BAD_DATA;
  return ended ? HR_END : status;
}

void hr_loader_stop(hr_loader* loader) {
  if (loader != nullptr && loader->home.is_here()) loader->batches->stop();
}

uint64_t hr_loader_report(const hr_loader* loader, char* buffer, uint64_t buffer_bytes) {
  if (loader == nullptr) return 0;
  if (!loader->home.is_here()) {
    fail(HR_FORKED, "this loader belongs to the parent process; open one here");
    return 0;
  }
  std::string text;
  const int32_t status = guarded([&]() -> headrace::io::Status {
    text = headrace::capi::report_text(*loader->batches, *loader->parts.dataset);
    return {};
  });
  return status == HR_OK ? headrace::capi::copy_text(text, buffer, buffer_bytes) : 0;
}
