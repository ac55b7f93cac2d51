// SPDX-License-Identifier: Apache-2.0
// Keeps the page cache filled with what will be read next: fetches what the plan names, pushes it, evicts.
//
//   auto pusher = std::make_shared<Pusher>(store, inodes, mounted_at, takeover, {.budget_bytes = 8ULL << 30});
//   pusher->start(session, 2, {});
//   pusher->plan().on_opens(samples);   // the reader took these
//
// Threads of its own send all notifications, for they may block on a page that the kernel has locked for a READ. Each
// takes the sample that arrived first, pushes it and begins the next fetches; while one is blocked, the others go on.
// Bytes go from the store's view to the kernel in one writev.
//
// Its lock is never held for long, and nobody who holds it waits for the plan: the store's threads, on which fetches
// end, answer READs as well.
//
// Thread-safety: every function from any thread; start() and join() by the owner.
// Ownership: shared with the fetches under way, which may end after join(). The store outlives it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "headrace/fuse/push/delivery.h"
#include "headrace/fuse/push/fetch.h"
#include "headrace/fuse/push/fetch_limits.h"
#include "headrace/fuse/push/kernel_pages.h"
#include "headrace/fuse/push/making_room.h"
#include "headrace/fuse/push/push_parts.h"
#include "headrace/fuse/push/record_answers.h"
#include "headrace/fuse/push/shared_plan.h"
#include "headrace/fuse/push/stale_files.h"
#include "headrace/fuse/push/tier_order.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

class Pusher : public std::enable_shared_from_this<Pusher> {
 public:
  // `root`: where files are reached through the mount itself. `takeover`: for the store's catalog; outlive the threads.
  Pusher(cache::Store& store, std::shared_ptr<Inodes> inodes, std::shared_ptr<const MountedAt> root, Takeover takeover,
         PushPlanOptions options);
  Pusher(const Pusher&) = delete;
  Pusher& operator=(const Pusher&) = delete;

  // The kernel holds pages of the file that nobody knows of, or attributes of a folder that are others now. They go
  // first. Waits for nobody.
  void forget_all(cache::EntryId entry);
  void start(std::shared_ptr<Session> session, unsigned thread_count, PlanListener listener,
             KernelPages::OnForgotten on_forgotten = {});
  // Asks the threads to end; a notification that the kernel blocks holds one up.
  void request_stop();
  // False: still running at the deadline.
  [[nodiscard]] bool wait_stopped(std::chrono::steady_clock::time_point deadline);
  void join();

  // What is pushed next: for whoever has something to tell it or to ask.
  [[nodiscard]] SharedPlan& plan() { return plan_; }

  // RecordAnswers::answer_read() of a pack; false for other files. `answer` may be called on the store's threads.
  [[nodiscard]] bool answer_read(std::uint64_t inode, const PageRange& range, const RecordAnswer& answer);
  // These files have changed: the kernel is told to forget them, and what was fetched before is not pushed any more.
  // Waits for nobody.
  void on_changed(std::span<const cache::EntryId> entries);
  // Returns when the kernel has forgotten all that has changed until now; false at the deadline, or when the pusher
  // stops before. Not for a thread that answers the kernel: a page is forgotten after the READ that fills it.
  [[nodiscard]] bool wait_until_forgotten(std::chrono::steady_clock::time_point deadline) {
    return stale_.wait_until_forgotten(deadline);
  }
  // PushPlan::pin(). Errors: kUnsupported (samples are records), kInvalidArgument (one that can never be pushed).
  [[nodiscard]] Result<PinOutcome> pin(std::span<const cache::SampleIndex> samples);
  // They are pinned no more; the store gives them up, and the kernel is told to forget them. Where the order wants them
  // next, they come again.
  [[nodiscard]] Status evict(std::span<const cache::SampleIndex> samples);
  void set_source_rate(std::uint64_t bytes_per_second);  // MountOptions::source_rate

  // Fills in the fields that are the pusher's and the plan's.
  void add_stats(MountStats& stats);
  // Waits until nothing more can be pushed, or for the deadline. False: the deadline passed.
  [[nodiscard]] bool wait_full(std::chrono::steady_clock::time_point deadline);

 private:
  Pusher(PushParts parts, const cache::StoreStats& about, std::shared_ptr<const MountedAt> root, Takeover takeover,
         PushPlanOptions&& options);

  void run();
  void end_thread();
  void start_fetches();
  [[nodiscard]] std::optional<Fetch> take_next(PushPlan& plan);
  [[nodiscard]] bool is_on_disk(const Fetch& fetch) const;
  [[nodiscard]] std::optional<Fetch> name_next(PushPlan& plan, std::uint64_t changes) const;
  void take_pages(Fetch& fetch, PushPlan& plan) const;
  void read_piece(Fetch fetch);
  void on_read_piece(Fetch fetch);
  void push(Fetch fetch);
  void finish(const Fetch& fetch, Landing landing);
  void plan_changed();
  [[nodiscard]] Status check_are_files() const;

  [[nodiscard]] bool has_work() const HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] bool can_fetch() const HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] bool is_full() const HEADRACE_REQUIRES(mutex_);
  void wait_for_work(io::MutexLock& lock) HEADRACE_REQUIRES(mutex_);

  const PushParts parts_;
  const std::unique_ptr<RecordAnswers> answers_;  // null: samples are files
  const std::uint64_t store_ram_bytes_;  // the store's own, without the copies for the plan; 0: it keeps nothing
  io::Mutex mutex_;                      // after the plan's
  io::CondVar work_;                     // for the threads
  io::CondVar finished_;                 // for those who wait: full, stopped
  bool stop_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::size_t running_ HEADRACE_GUARDED_BY(mutex_) = 0;         // threads
  bool changed_ HEADRACE_GUARDED_BY(mutex_) = true;             // the plan may have something to fetch
  bool may_evict_ HEADRACE_GUARDED_BY(mutex_) = true;           // or to evict, and no thread has looked
  std::size_t untold_changes_ HEADRACE_GUARDED_BY(mutex_) = 0;  // of files, that the plan has not heard of
  std::uint64_t next_bytes_ HEADRACE_GUARDED_BY(mutex_) = 0;    // that next_ will take of the store's memory
  FetchLimits limits_ HEADRACE_GUARDED_BY(mutex_);
  std::deque<Fetch> fetched_ HEADRACE_GUARDED_BY(mutex_);

  KernelPages kernel_;
  StaleFiles stale_;
  const Delivery delivery_;
  SharedPlan plan_;
  MakingRoom room_;
  TierOrder tiers_;
  std::optional<Fetch> next_;  // waits for room among the fetches; used while the plan is locked
  std::vector<std::thread> threads_;
};

}  // namespace headrace::fuse
