// SPDX-License-Identifier: Apache-2.0
// Keeps the page cache filled with what will be read next: fetches along the plan, pushes, evicts.
//
//   Pusher pusher(store, {.root = "/mnt/x", .budget_bytes = 8ULL << 30, .order = order});
//   pusher.start(session);
//   pusher.on_opens(samples);   // the reader took these
//
// One thread does all notifications, for they may block on a page that the kernel has locked for a READ. Bytes go from
// the store's view to the kernel in one writev. What the plan releases stays in the page cache until its room is
// needed, because a file is released when it is opened, which is before it is read.
//
// Thread-safety: every function from any thread; start() and join() by the owner.
// Ownership: shared with the fetches under way, which may end after join(). The store outlives it.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "headrace/cache/order.h"
#include "headrace/cache/read_ahead.h"
#include "headrace/cache/store.h"
#include "headrace/fuse/internal/notes.h"
#include "headrace/fuse/internal/session.h"
#include "headrace/fuse/mount.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

struct PusherOptions {
  Notes notes;                                // for this catalog; outlive the thread
  std::filesystem::path root;                 // where files are reached through the mount itself
  std::uint64_t budget_bytes = 0;             // 0: nothing is pushed
  std::shared_ptr<const cache::Order> order;  // null: unknown
  std::uint64_t first_epoch = 0;
};

class Pusher : public std::enable_shared_from_this<Pusher> {
 public:
  // Goes on where the notes say that another process was.
  Pusher(cache::Store& store, PusherOptions options);
  Pusher(const Pusher&) = delete;
  Pusher& operator=(const Pusher&) = delete;

  void start(std::shared_ptr<Session> session);
  // Asks the thread to end; a notification that the kernel blocks holds it up.
  void request_stop();
  // False: still running at the deadline.
  [[nodiscard]] bool wait_stopped(std::chrono::steady_clock::time_point deadline);
  void join();

  // The reader opened these, in this order.
  void on_opens(std::span<const cache::SampleIndex> samples);
  // A READ came for the file: if it was pushed, the kernel has dropped it.
  void on_read(cache::EntryId entry);
  // Opens cannot be seen (all of them): READs are then the only evidence of where the reader is.
  void follow_reads();
  void on_overflow();

  void set_order(std::shared_ptr<const cache::Order> order, std::uint64_t epoch, std::uint64_t position);
  void set_budget(std::uint64_t budget_bytes);
  [[nodiscard]] std::uint64_t budget_bytes() const;

  // Fills in the fields that are the pusher's.
  void add_stats(MountStats& stats) const;
  [[nodiscard]] PushProgress progress() const;
  // Waits until nothing more can be pushed, or for the deadline. False: the deadline passed.
  [[nodiscard]] bool wait_full(std::chrono::steady_clock::time_point deadline);

 private:
  // A sample on its way from the store to the page cache, a piece at a time.
  struct Fetch {
    cache::SampleIndex sample = 0;
    std::uint64_t plan_generation = 0;
    std::uint64_t offset = 0;  // of the piece
    Result<cache::View> view = cache::View{};
  };

  void run();
  void start_fetches();
  void read_piece(Fetch fetch);
  void push(Fetch fetch);
  int store_piece(const Fetch& fetch);
  bool make_room(cache::SampleIndex sample);
  void evict_for(std::uint64_t bytes);
  std::optional<cache::SampleIndex> pick_victim(std::uint64_t bytes);
  void make_known(cache::SampleIndex sample) const;
  void finish(const Fetch& fetch, bool success);

  [[nodiscard]] bool can_be_pushed(cache::SampleIndex sample) const;
  [[nodiscard]] std::uint64_t piece_bytes(cache::SampleIndex sample, std::uint64_t offset) const;
  [[nodiscard]] bool can_fetch() const HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] bool must_trim() const HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] bool is_full() const HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] std::optional<cache::SampleIndex> next_fetch() HEADRACE_REQUIRES(mutex_);
  void adopt_holdings() HEADRACE_REQUIRES(mutex_);
  void make_plan(std::uint64_t epoch, std::uint64_t position) HEADRACE_REQUIRES(mutex_);
  [[nodiscard]] std::uint64_t plan_budget() const HEADRACE_REQUIRES(mutex_);
  void release(cache::SampleIndex sample) HEADRACE_REQUIRES(mutex_);
  void forget(cache::SampleIndex sample) HEADRACE_REQUIRES(mutex_);
  void plan_changed() HEADRACE_REQUIRES(mutex_);
  void note_position() HEADRACE_REQUIRES(mutex_);

  cache::Store& store_;
  const cache::Catalog& catalog_;
  const std::filesystem::path root_;
  const std::vector<std::uint32_t> sizes_;  // of each sample in the page cache; at most UINT32_MAX
  const std::uint64_t total_bytes_;         // their sum
  const Notes notes_;                       // what they point to: guarded by mutex_
  std::shared_ptr<Session> session_;        // set by start()
  std::thread thread_;

  mutable io::Mutex mutex_;
  io::CondVar work_;      // for the thread
  io::CondVar finished_;  // for those who wait: full, stopped
  bool stop_ HEADRACE_GUARDED_BY(mutex_) = false;
  bool stopped_ HEADRACE_GUARDED_BY(mutex_) = true;
  bool changed_ HEADRACE_GUARDED_BY(mutex_) = true;  // the plan may have something to fetch
  bool follow_reads_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const cache::Order> given_order_ HEADRACE_GUARDED_BY(mutex_);  // null: unknown
  std::shared_ptr<const cache::Order> order_ HEADRACE_GUARDED_BY(mutex_);        // the plan's
  std::unique_ptr<cache::ReadAhead> plan_ HEADRACE_GUARDED_BY(mutex_);           // null: nothing is pushed
  std::uint64_t plan_generation_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t budget_bytes_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::deque<cache::SampleIndex> released_ HEADRACE_GUARDED_BY(mutex_);  // oldest first; may name evicted ones
  std::deque<Fetch> fetched_ HEADRACE_GUARDED_BY(mutex_);
  std::uint64_t in_flight_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t in_flight_bytes_ HEADRACE_GUARDED_BY(mutex_) = 0;
  MountStats counters_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::fuse
