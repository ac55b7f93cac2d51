// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/read_in_ranges.h"

#include "headrace/io/result.h"

namespace headrace::fuse {
using cache::SampleIndex;

void ReadInRanges::add(SampleIndex sample, const PageRange& range) {
  if (range.length == 0) return;
  auto& slots = files_[sample];
  const std::uint64_t made_before = tickets_;
  const std::uint64_t last = (range.offset + range.length - 1) / kPageBytes;
  for (std::uint64_t page = range.offset / kPageBytes; page <= last; ++page) {
    const auto [slot, is_new] = slots.try_emplace(page / kSlotPages);
    Pages& pages = slot->second;
    if (is_new) {
      pages.ticket = ++tickets_;
      queue_.push_back({sample, slot->first, pages.ticket});
      ++slot_count_;
    }
    pages.again = pages.again || pages.ticket <= made_before;
    if (pages.read_in.test(page % kSlotPages)) continue;  // the kernel had dropped it since
    pages.read_in.set(page % kSlotPages);
    bytes_ += kPageBytes;
  }
}

void ReadInRanges::forget(SampleIndex sample) {
  const auto file = files_.find(sample);
  if (file == files_.end()) return;
  for (const auto& [slot, pages] : file->second) bytes_ -= pages.read_in.count() * kPageBytes;
  slot_count_ -= file->second.size();
  files_.erase(file);
  constexpr std::size_t kForgottenMax = 1024;  // looking through the queue costs one look per slot then, on average
  if (queue_.size() <= 2 * slot_count_ + kForgottenMax) return;
  std::erase_if(queue_, [this](const Queued& queued) { return find(queued) == nullptr; });
}

ReadInRanges::Pages* ReadInRanges::find(const Queued& queued) {
  const auto file = files_.find(queued.sample);
  if (file == files_.end()) return nullptr;
  const auto slot = file->second.find(queued.slot);
  return slot == file->second.end() || slot->second.ticket != queued.ticket ? nullptr : &slot->second;
}

ReadInRanges::Slot ReadInRanges::take_oldest() {
  HEADRACE_ASSERT(slot_count_ > 0);
  while (true) {  // ends: each slot is passed over once at most
    Queued oldest = queue_.front();
    queue_.pop_front();
    Pages* pages = find(oldest);
    if (pages == nullptr) continue;
    if (pages->again) {
      pages->again = false;
      queue_.push_back(oldest);
      continue;
    }
    bytes_ -= pages->read_in.count() * kPageBytes;
    --slot_count_;
    const auto file = files_.find(oldest.sample);
    file->second.erase(oldest.slot);
    if (file->second.empty()) files_.erase(file);
    constexpr std::uint64_t kSlotBytes = kSlotPages * kPageBytes;
    return {oldest.sample, {oldest.slot * kSlotBytes, kSlotBytes}};
  }
}

}  // namespace headrace::fuse
