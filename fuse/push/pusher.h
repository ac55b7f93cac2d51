// SPDX-License-Identifier: Apache-2.0
// Keeps the page cache filled with what will be read next: fetches what the plan names, pushes it, evicts.
//
//   auto pusher = std::make_shared<Pusher>(store, inodes, "/mnt/x", takeover, {.budget_bytes = 8ULL << 30});
//   pusher->start(session, 2);
//   pusher->on_opens(samples);   // the reader took these
//
// Threads of its own send all notifications, for they may block on a page that the kernel has locked for a READ. Each
// takes the sample that arrived first, pushes it and begins the next fetches; while one is blocked, the others go on.
// Bytes go from the store's view to the kernel in one writev.
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
#include <unordered_map>
#include <vector>

#include "headrace/cache/store.h"
#include "headrace/fuse/kernel/inodes.h"
#include "headrace/fuse/push/kernel_pages.h"
#include "headrace/fuse/push/push_plan.h"
#include "headrace/fuse/push/record_answers.h"
#include "headrace/fuse/push/source_rate.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

class Pusher : public std::enable_shared_from_this<Pusher> {
 public:
  // `root`: where files are reached through the mount itself. `takeover`: for the store's catalog; outlive the threads.
  Pusher(cache::Store& store, std::shared_ptr<const Inodes> inodes, std::filesystem::path root, Takeover takeover,
         PushPlanOptions options);
  Pusher(const Pusher&) = delete;
  Pusher& operator=(const Pusher&) = delete;

  // Before start(): the kernel holds pages of the file that nobody knows of. They go first.
  void forget_all(cache::EntryId entry);
  void start(std::shared_ptr<Session> session, unsigned thread_count);
  // Asks the threads to end; a notification that the kernel blocks holds one up.
  void request_stop();
  // False: still running at the deadline.
  [[nodiscard]] bool wait_stopped(std::chrono::steady_clock::time_point deadline);
  void join();

  // The reader opened these, in this order.
  void on_opens(std::span<const cache::SampleIndex> samples);
  // A READ came for the sample: if it was pushed, the kernel has dropped some of it.
  void on_read(cache::SampleIndex sample, const PageRange& range);
  // Of records: a READ came for these bytes of the pack.
  void on_pack_read(const PageRange& range);
  // RecordAnswers::answer_read() of a pack; false for other files. `answer` may be called on the store's threads.
  [[nodiscard]] bool answer_read(std::uint64_t inode, const PageRange& range, const RecordAnswer& answer);
  // Whether the sample is neither in the page cache nor on its way there.
  [[nodiscard]] bool lacks(cache::SampleIndex sample) const;
  // Whether the kernel has dropped a good part of what was opened since the last call.
  [[nodiscard]] bool take_losses();
  // The kernel dropped pages though there is memory. What the daemon keeps itself from now on; nullopt: nothing
  // changed.
  [[nodiscard]] std::optional<std::uint64_t> on_pages_dropped();
  // Whether it matters in which order samples are read.
  [[nodiscard]] bool wants_order() const;
  // While no order is known: an epoch went by in which these were not read.
  void let_go(std::span<const cache::SampleIndex> samples);
  void on_overflow();
  // These files have changed: the kernel is told to forget them, and what was fetched before is not pushed any more.
  void on_changed(std::span<const cache::EntryId> entries);
  // Returns when the kernel has forgotten all that has changed until now; false at the deadline, or when the pusher
  // stops before. Not for a thread that answers the kernel: a page is forgotten after the READ that fills it.
  [[nodiscard]] bool wait_until_forgotten(std::chrono::steady_clock::time_point deadline);
  // PushPlan::pin(). Errors: kUnsupported (samples are records), kInvalidArgument (one that can never be pushed).
  [[nodiscard]] Result<PinOutcome> pin(std::span<const cache::SampleIndex> samples);
  // They are pinned no more; the store gives them up, and the kernel is told to forget them. Where the order wants them
  // next, they come again.
  [[nodiscard]] Status evict(std::span<const cache::SampleIndex> samples);
  // Of the samples from `first` on; at most `count`.
  [[nodiscard]] std::vector<cache::SampleIndex> pinned(cache::SampleIndex first, std::size_t count) const;
  void set_order(const OrderPosition& order);
  // True once after the opens contradicted an order that may be wrong.
  struct Contradiction {
    std::string spec;     // what is not followed any more
    bool is_all = false;  // no order is left
  };
  [[nodiscard]] std::optional<Contradiction> take_contradiction();
  void set_budget(std::uint64_t budget_bytes);
  void set_source_rate(std::uint64_t bytes_per_second);  // MountOptions::source_rate
  void limit_budget(std::uint64_t budget_bytes);         // what memory pressure leaves of it
  [[nodiscard]] std::uint64_t budget_bytes() const;

  // Fills in the fields that are the pusher's.
  void add_stats(MountStats& stats) const;
  [[nodiscard]] PushProgress progress() const;
  // Waits until nothing more can be pushed, or for the deadline. False: the deadline passed.
  [[nodiscard]] bool wait_full(std::chrono::steady_clock::time_point deadline);

 private:
  Pusher(cache::Store& store, const cache::StoreStats& about, std::shared_ptr<const Inodes> inodes,
         std::filesystem::path root, Takeover takeover, PushPlanOptions options);

  // A sample on its way from the store to the page cache, a piece at a time.
  struct Fetch {
    cache::SampleIndex sample = 0;
    std::uint64_t generation = 0;  // of the plan that named it
    std::uint64_t inode = 0;       // of the version that it was known to be when it began
    std::uint64_t begin = 0;       // of what is fetched, in the file of that version
    std::uint64_t end = 0;
    std::uint64_t offset = 0;                            // of the piece
    std::uint64_t changes = 0;                           // change_count_ when it began
    std::uint64_t source_bytes = 0;                      // of these, if no disk tier has them
    bool retain = false;                                 // the store keeps it for the next time
    bool push = true;                                    // else that is all
    std::optional<std::uint64_t> beacon = std::nullopt;  // the page that is left out
    std::shared_ptr<const cache::View> view = nullptr;   // null: not read
  };

  void run();
  void follow_order();
  void follow(const std::shared_ptr<const cache::Order>& order, std::uint64_t epoch, std::uint64_t held_bytes);
  void start_fetches();
  [[nodiscard]] std::optional<Fetch> next_fetch() HEADRACE_REQUIRES(mutex_);
  void read_piece(Fetch fetch);
  void on_read_piece(Fetch fetch);
  void show(const Fetch& fetch);
  void push(Fetch fetch);
  int store_piece(const Fetch& fetch);
  [[nodiscard]] bool can_show(const Fetch& fetch);
  void leave_beacon(const Fetch& fetch);
  [[nodiscard]] static std::uint64_t piece_bytes(const Fetch& fetch);
  [[nodiscard]] std::uint64_t memory_bytes(const Fetch& fetch) const;
  [[nodiscard]] bool has_changed(const Fetch& fetch);
  [[nodiscard]] bool is_older_than_change(const Fetch& fetch) const HEADRACE_REQUIRES(mutex_);
  void forget_changed();
  bool evict_for(std::uint64_t bytes);
  bool evict_ranges_for(std::uint64_t bytes);
  void share_budget();
  void drop_retained();
  bool make_room(cache::SampleIndex sample);
  [[nodiscard]] bool place(cache::SampleIndex sample);
  void finish(const Fetch& fetch, Landing landing);
  [[nodiscard]] Status check_are_files() const;
  [[nodiscard]] cache::EntryId entry_of_sample(cache::SampleIndex sample) const;
  void take_pages(Fetch& fetch) HEADRACE_REQUIRES(mutex_);
  void expect_record(const Fetch& fetch) HEADRACE_REQUIRES(mutex_);
  void forget_pack() HEADRACE_REQUIRES(mutex_);

  [[nodiscard]] bool has_work() const HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] bool can_fetch() const HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] bool is_full() const HEADRACE_REQUIRES(mutex_);
  void wait_for_work(io::MutexLock& lock) HEADRACE_REQUIRES(mutex_);
  void plan_changed() HEADRACE_REQUIRES(mutex_);

  cache::Store& store_;
  const cache::Catalog& catalog_;
  const std::shared_ptr<const Inodes> inodes_;
  KernelPages kernel_;
  const std::shared_ptr<const PackRecords> records_;  // null: samples are files
  const std::unique_ptr<RecordAnswers> answers_;      // null likewise
  const std::uint64_t store_ram_bytes_;  // the store's own, without what is retained for the plan; 0: it keeps nothing
  const std::uint64_t fetches_max_;      // under way at a time
  const std::uint64_t fetch_bytes_max_;  // what they may take of store_ram_bytes_
  std::vector<std::thread> threads_;

  // What the store was told about the order: by one thread at a time, which has set follows_.
  std::shared_ptr<const cache::Order> followed_order_;  // null: nothing
  std::uint64_t followed_epoch_ = 0;
  std::unique_ptr<cache::Following> following_;

  io::Mutex share_mutex_;  // held while the store is told its share of the budget; before mutex_
  std::uint64_t retained_limit_ HEADRACE_GUARDED_BY(share_mutex_) = 0;  // what it was told

  mutable io::Mutex mutex_;
  io::CondVar work_;      // for the threads
  io::CondVar finished_;  // for those who wait: full, forgotten, stopped
  PushPlan plan_ HEADRACE_GUARDED_BY(mutex_);
  bool stop_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::size_t running_ HEADRACE_GUARDED_BY(mutex_) = 0;  // threads
  bool follows_ HEADRACE_GUARDED_BY(mutex_) = false;
  bool changed_ HEADRACE_GUARDED_BY(mutex_) = true;        // the plan may have something to fetch
  std::optional<Fetch> next_ HEADRACE_GUARDED_BY(mutex_);  // waits for room among the fetches
  std::deque<Fetch> fetched_ HEADRACE_GUARDED_BY(mutex_);
  std::vector<cache::EntryId> to_forget_ HEADRACE_GUARDED_BY(mutex_);  // by the kernel
  bool forgets_ HEADRACE_GUARDED_BY(mutex_) = false;                   // and the kernel is being told
  std::uint64_t change_count_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::unordered_map<cache::EntryId, std::uint64_t> changed_at_ HEADRACE_GUARDED_BY(mutex_);  // change_count_ then
  std::uint64_t in_flight_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t in_flight_bytes_ HEADRACE_GUARDED_BY(mutex_) = 0;
  SourceRate source_rate_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::fuse
