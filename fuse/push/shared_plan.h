// SPDX-License-Identifier: Apache-2.0
// The plan, for several threads: its lock, the thread that changes it, and what waits to be told to it.
//
//   SharedPlan plan(catalog, takeover, {.budget_bytes = 8ULL << 30}, [&] { wake_pushers(); });
//   plan.start({.on_opens = [&](auto opens) { learn_from(opens); }});
//   plan.set_budget(4ULL << 30);               // soon
//   plan.on_read(sample, range);               // never waits
//   const auto victim = plan.use([&](PushPlan& plan) { return plan.next_victim(bytes); });
//
// A change may take long: an epoch of 10 million samples is drawn in a quarter of a second, a reader that went
// elsewhere is looked for as long, and another budget may take seconds. So what is told is a change that waits in a
// queue, and hr-plan takes it. Whoever asks for figures or pins samples first takes what waits by itself, so that it
// sees what was told before.
//
// Threads that answer the kernel never wait for the plan. Where nobody uses it they tell it at once, else later.
//
// Thread-safety: every function from any thread; start() and stop() by the owner. Ownership: as PushPlan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "headrace/cache/order_book.h"
#include "headrace/fuse/push/push_plan.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

// Who wants to hear what the plan has heard: on hr-plan, which holds no lock then. Each may be empty.
struct PlanListener {
  // None: READs said where the reader is.
  std::function<void(std::span<const cache::SampleIndex>)> on_opens = {};
  std::function<void()> on_overflow = {};  // opens went unseen
};

class SharedPlan final : public cache::OrderFollower {
 public:
  // `on_taken`: something changed that may have to be carried out. Called while the plan is locked.
  SharedPlan(const cache::Catalog& catalog, Takeover takeover, PushPlanOptions options, std::function<void()> on_taken);
  ~SharedPlan() override { stop(); }
  SharedPlan(const SharedPlan&) = delete;
  SharedPlan& operator=(const SharedPlan&) = delete;

  void start(PlanListener listener);
  // What is told from now on waits for whoever looks.
  void request_stop();
  void stop();

  // By the threads that carry the plan out: as it is, without what waits. May wait for a change that is being taken.
  template <typename Use>
  auto use(Use with) HEADRACE_EXCLUDES(mutex_) {
    const io::MutexLock lock(mutex_);
    return with(plan_);
  }
  // By everybody else who may wait: after all that was told.
  template <typename Use>
  auto look(Use with) HEADRACE_EXCLUDES(mutex_) {
    const io::MutexLock lock(mutex_);
    take_changes();
    return with(plan_);
  }
  // Soon, by hr-plan, after all that was told before.
  using Change = std::function<void(PushPlan&)>;
  void change(Change change);
  // Something waits, or is being taken.
  [[nodiscard]] bool has_changes() const;

  // By threads that answer the kernel: none of these waits.
  // A READ came for the sample, and its pages with that: PushPlan::on_read().
  void on_read(cache::SampleIndex sample, const PageRange& range);
  // Of records: a READ came for these bytes of a pack. What that tells to be read is heard as opened.
  void on_pack_read(cache::EntryId pack, const PageRange& range);
  // A READ stands for an open that nobody sees.
  void on_open_by_read(cache::SampleIndex sample);
  // Whether the sample is neither in the page cache nor on its way there. Where the plan is in use it may be there: who
  // brings it in once more has lost less than who waits for what is not there.
  [[nodiscard]] bool lacks(cache::SampleIndex sample);

  // The reader opened these, in this order. Waits while very much waits already.
  void on_opens(std::span<const cache::SampleIndex> samples);
  void on_overflow();
  void let_go(std::span<const cache::SampleIndex> samples) override;
  void set_order(const OrderPosition& order) override;
  void fill();
  void set_budget(std::uint64_t budget_bytes);
  void limit_budget(std::uint64_t budget_bytes);  // what memory pressure leaves of it

  // Whether the kernel has dropped a good part of what was opened since the last call.
  [[nodiscard]] bool take_losses();
  // The kernel dropped pages though there is memory. What the daemon keeps itself from now on; nullopt: nothing
  // changed.
  [[nodiscard]] std::optional<std::uint64_t> on_pages_dropped();
  [[nodiscard]] Finding take_finding() override;
  [[nodiscard]] std::uint64_t paused_opens();
  [[nodiscard]] std::uint64_t budget_bytes();
  // Of the samples from `first` on; at most `count`.
  [[nodiscard]] std::vector<cache::SampleIndex> pinned(cache::SampleIndex first, std::size_t count);
  [[nodiscard]] PushProgress progress();
  void add_stats(MountStats& stats);

 private:
  struct Waiting {
    Change change;
    std::function<void()> then = {};  // may be empty
  };

  void run();
  [[nodiscard]] bool wait_for_changes();
  void take_changes() HEADRACE_REQUIRES(mutex_);
  void tell(Waiting waiting) HEADRACE_REQUIRES(queue_mutex_);
  void offer(Waiting waiting);
  void hear(std::span<const cache::SampleIndex> opens) const;

  io::Mutex mutex_;  // held while the plan is used, however long that takes; before queue_mutex_
  PushPlan plan_ HEADRACE_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> afterwards_ HEADRACE_GUARDED_BY(mutex_);  // what was taken: for hr-plan to run
  const std::function<void()> on_taken_;
  PlanListener listener_;  // set by start(); called by its thread alone
  std::thread thread_;

  mutable io::Mutex queue_mutex_;  // never held for long
  io::CondVar told_;               // for hr-plan
  io::CondVar room_;               // for who waits to tell more
  std::deque<Waiting> waiting_ HEADRACE_GUARDED_BY(queue_mutex_);
  std::size_t offered_ HEADRACE_GUARDED_BY(queue_mutex_) = 0;  // of these, by threads that answer the kernel
  std::size_t lost_ HEADRACE_GUARDED_BY(queue_mutex_) = 0;     // READs for which there was no room
  bool is_taking_ HEADRACE_GUARDED_BY(queue_mutex_) = false;
  bool is_told_ HEADRACE_GUARDED_BY(queue_mutex_) = false;  // since hr-plan looked
  bool is_running_ HEADRACE_GUARDED_BY(queue_mutex_) = false;
};

}  // namespace headrace::fuse
