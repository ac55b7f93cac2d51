// SPDX-License-Identifier: Apache-2.0
#include "headrace/capi/internal/batch.h"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>

namespace headrace::capi {
namespace {

constexpr std::size_t kAlignment = 64;        // a cache line; what vector loads and copies like
constexpr std::size_t kSlotAlignment = 4096;  // a page

constexpr std::size_t round_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

io::Result<std::shared_ptr<SlotMemory>> SlotMemory::allocate(std::size_t slots, std::size_t image_bytes,
                                                             std::size_t batch_size) {
  std::shared_ptr<SlotMemory> all(new SlotMemory);
  const std::size_t numbers_bytes = round_up(batch_size * sizeof(std::int64_t), kAlignment);
  all->slots_ = slots;
  all->image_bytes_ = image_bytes;
  all->labels_offset_ = round_up(image_bytes, kAlignment);
  all->indices_offset_ = all->labels_offset_ + numbers_bytes;
  all->slot_bytes_ = round_up(all->indices_offset_ + numbers_bytes, kSlotAlignment);
  const std::size_t bytes = slots * all->slot_bytes_;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return io::system_error(errno, "memory for " + std::to_string(slots) + " batches of " +
                                       std::to_string(all->slot_bytes_) + " bytes; make batches smaller");
  }
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // fewer page faults; where the kernel has none, small pages do
  all->memory_ = static_cast<std::byte*>(memory);
  return all;
}

SlotMemory::~SlotMemory() {
  if (memory_ != nullptr) ::munmap(memory_, slots_ * slot_bytes_);
}

std::vector<std::span<std::byte>> SlotMemory::images() const {
  std::vector<std::span<std::byte>> all;
  for (std::size_t i = 0; i < slots_; ++i) all.emplace_back(memory_ + i * slot_bytes_, image_bytes_);
  return all;
}

std::int64_t* SlotMemory::labels(std::byte* images) const {
  return reinterpret_cast<std::int64_t*>(images + labels_offset_);
}

std::int64_t* SlotMemory::indices(std::byte* images) const {
  return reinterpret_cast<std::int64_t*>(images + indices_offset_);
}

void BatchHandle::finish() {
  for (std::size_t i = 0; i < all_notes.size(); ++i) all_notes[i].reason = reasons[i].c_str();
  notes = all_notes.data();
  note_count = all_notes.size();
  crops = all_crops.empty() ? nullptr : all_crops.data();
  windows = all_windows.empty() ? nullptr : all_windows.data();
  contents = bytes.empty() ? nullptr : bytes.data();
}

void BatchHandle::copy_contents() {
  for (hr_bytes& content : bytes) {
    if (content.data == nullptr) continue;
    own_bytes.push_back(std::make_unique_for_overwrite<std::byte[]>(content.bytes));
    std::memcpy(own_bytes.back().get(), content.data, content.bytes);
    content.data = own_bytes.back().get();
  }
}

}  // namespace headrace::capi

using headrace::capi::BatchHandle;

void hr_batch_retain(hr_batch* batch) {
  static_cast<BatchHandle*>(batch)->references.fetch_add(1, std::memory_order_relaxed);
}

void hr_batch_release(hr_batch* batch) {
  if (batch == nullptr) return;
  auto* handle = static_cast<BatchHandle*>(batch);
  if (handle->references.fetch_sub(1, std::memory_order_acq_rel) == 1 && handle->home.is_here()) delete handle;
}
