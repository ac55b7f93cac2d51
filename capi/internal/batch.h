// SPDX-License-Identifier: Apache-2.0
// A batch on loan to C: what hr_batch points to, and the memory that it lies in.
//
// Ownership: counted; the last hr_batch_release() gives the memory back to the loader, or frees it if that is gone.
// Thread-safety: retain and release from any thread; the rest is constant after finish().
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headrace/capi/headrace.h"
#include "headrace/capi/internal/guard.h"
#include "headrace/decode/batch_loader.h"

namespace headrace::capi {

// Places for batches: the images, behind them the labels, behind those the indices, so that one copy moves all to a
// device. Each part begins at a multiple of 64 bytes.
class SlotMemory {
 public:
  // Errors: kSystem with ENOMEM.
  [[nodiscard]] static io::Result<std::shared_ptr<SlotMemory>> allocate(std::size_t slots, std::size_t image_bytes,
                                                                        std::size_t batch_size);
  ~SlotMemory();
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;

  [[nodiscard]] std::vector<std::span<std::byte>> images() const;
  // Of the slot whose images begin there.
  [[nodiscard]] std::int64_t* labels(std::byte* images) const;
  [[nodiscard]] std::int64_t* indices(std::byte* images) const;

 private:
  SlotMemory() = default;

  std::byte* memory_ = nullptr;
  std::size_t slots_ = 0;
  std::size_t slot_bytes_ = 0;
  std::size_t image_bytes_ = 0;
  std::size_t labels_offset_ = 0;
  std::size_t indices_offset_ = 0;
};

struct BatchHandle final : hr_batch {
  BatchHandle() : hr_batch{} {}
  ~BatchHandle() {
    if (lent_count) lent_count->fetch_sub(1);
  }
  BatchHandle(const BatchHandle&) = delete;
  BatchHandle& operator=(const BatchHandle&) = delete;

  // Points the C fields at what the vectors hold.
  void finish();
  // From now on what `contents` point to is this batch's own.
  void copy_contents();

  const Home home;
  std::atomic<std::uint64_t> references = 1;

  // What keeps the memory; destroyed from the last to the first.
  std::shared_ptr<SlotMemory> memory;  // of `lent`
  decode::LentBatch lent;
  std::vector<std::unique_ptr<std::byte[]>> own_bytes;     // of one sample each: HR_CONTENT_BYTES, or a copy
  std::shared_ptr<std::atomic<std::uint64_t>> lent_count;  // goes down when this batch goes

  std::vector<std::int64_t> numbers;  // HR_CONTENT_BYTES: labels, then indices
  std::vector<std::uint8_t> own_states;
  std::vector<hr_bytes> bytes;
  std::vector<hr_note> all_notes;
  std::vector<std::string> reasons;  // of the notes
  std::vector<hr_crop> all_crops;
  std::vector<hr_window> all_windows;

  std::array<std::int64_t, 4> shape = {};  // of the images
  std::int32_t element_type = HR_UINT8;
};

}  // namespace headrace::capi
