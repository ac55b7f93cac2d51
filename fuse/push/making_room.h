// SPDX-License-Identifier: Apache-2.0
// Makes room for what is pushed next: tells the kernel what goes from the page cache, and the store what it may keep.
//
//   MakingRoom room(parts, kernel, plan, answers, store_ram_bytes);
//   if (room.make_for(sample)) push();
//   room.evict_for(0);     // the budget fell
//   room.share_budget();   // what the page cache gives up is the store's to hold
//
// Thread-safety: every function from any thread. All may block as KernelPages does. Ownership: all of what it is given
// outlives it.
#pragma once

#include <cstdint>

#include "headrace/fuse/push/kernel_pages.h"
#include "headrace/fuse/push/push_parts.h"
#include "headrace/fuse/push/record_answers.h"
#include "headrace/fuse/push/shared_plan.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

class MakingRoom {
 public:
  // `store_ram_bytes`: the store's own, without the copies for the plan. `answers`: null where samples are files.
  MakingRoom(const PushParts& parts, KernelPages& kernel, SharedPlan& plan, RecordAnswers* answers,
             std::uint64_t store_ram_bytes)
      : parts_(parts), kernel_(kernel), plan_(plan), answers_(answers), store_ram_bytes_(store_ram_bytes) {}

  // Whether anything was there to evict.
  bool evict_for(std::uint64_t bytes);
  // Counts the sample as held. False: there is no room to be had.
  [[nodiscard]] bool make_for(cache::SampleIndex sample);
  // The page cache grows no further than what the plan leaves it, so the two together stay within the budget.
  void share_budget();
  void drop_copies();

 private:
  bool evict_ranges_for(std::uint64_t bytes);
  [[nodiscard]] bool place(cache::SampleIndex sample);

  const PushParts& parts_;
  KernelPages& kernel_;
  SharedPlan& plan_;
  RecordAnswers* const answers_;
  const std::uint64_t store_ram_bytes_;
  io::Mutex share_mutex_;  // held while the store is told its share of the budget; before the plan's
  std::uint64_t copies_limit_ HEADRACE_GUARDED_BY(share_mutex_) = 0;  // what it was told
};

}  // namespace headrace::fuse
