// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/shared_plan.h"

#include <memory>
#include <utility>

#include <pthread.h>

#include "headrace/io/log.h"

namespace headrace::fuse {
using cache::SampleIndex;
using io::MutexLock;

namespace {

// READs that come while the plan is in use: 10 000 a second for more than three seconds, in some 4 MiB.
constexpr std::size_t kOfferedMax = 32'768;
// Batches of opens, of 1 500 at most: 2 MiB. What comes after that waits in the kernel's queue.
constexpr std::size_t kWaitingMax = 256;

}  // namespace

SharedPlan::SharedPlan(const cache::Catalog& catalog, Takeover takeover, PushPlanOptions options,
                       std::function<void()> on_taken)
    : plan_(catalog, takeover, std::move(options)), on_taken_(std::move(on_taken)) {}

void SharedPlan::start(PlanListener listener) {
  listener_ = std::move(listener);
  {
    MutexLock lock(queue_mutex_);
    is_running_ = true;
  }
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "hr-plan");
    run();
  });
}

void SharedPlan::request_stop() {
  MutexLock lock(queue_mutex_);
  is_running_ = false;
  told_.notify_all();
  room_.notify_all();
}

void SharedPlan::stop() {
  request_stop();
  if (thread_.joinable()) thread_.join();
}

void SharedPlan::run() {
  while (wait_for_changes()) {
    std::vector<std::function<void()>> afterwards;
    {
      MutexLock lock(mutex_);
      take_changes();
      afterwards.swap(afterwards_);
    }
    for (const std::function<void()>& each : afterwards) each();
  }
}

bool SharedPlan::wait_for_changes() {
  MutexLock lock(queue_mutex_);
  while (is_running_ && !is_told_) told_.wait(lock);
  is_told_ = false;
  return is_running_;
}

void SharedPlan::take_changes() {
  std::deque<Waiting> taken;
  std::size_t lost = 0;
  bool is_heard = false;
  {
    MutexLock lock(queue_mutex_);
    if (waiting_.empty()) return;
    taken.swap(waiting_);
    offered_ = 0;
    lost = std::exchange(lost_, 0);
    is_heard = is_running_;
    is_taking_ = true;
  }
  for (Waiting& each : taken) {
    each.change(plan_);
    if (each.then && is_heard) afterwards_.push_back(std::move(each.then));
  }
  if (lost > 0) io::log_warning("{} READs came while the plan was busy, and are not in its account", lost);
  on_taken_();
  MutexLock lock(queue_mutex_);
  is_taking_ = false;
  room_.notify_all();
}

void SharedPlan::tell(Waiting waiting) {
  waiting_.push_back(std::move(waiting));
  is_told_ = true;
  told_.notify_one();
}

void SharedPlan::change(Change change) {
  MutexLock lock(queue_mutex_);
  tell({.change = std::move(change)});
}

void SharedPlan::offer(Waiting waiting) {
  MutexLock lock(queue_mutex_);
  if (offered_ == kOfferedMax) {
    ++lost_;
    return;
  }
  ++offered_;
  tell(std::move(waiting));
}

bool SharedPlan::has_changes() const {
  MutexLock lock(queue_mutex_);
  return is_taking_ || !waiting_.empty();
}

void SharedPlan::hear(std::span<const SampleIndex> opens) const {
  if (listener_.on_opens) listener_.on_opens(opens);
}

void SharedPlan::on_read(SampleIndex sample, const PageRange& range) {
  if (!has_changes() && mutex_.try_lock()) {
    plan_.on_read(sample, range);
    const bool brings_work = plan_.copies().must_fetch() || plan_.pages().must_evict();
    if (brings_work) on_taken_();
    return mutex_.unlock();
  }
  offer({.change = [sample, range](PushPlan& plan) { plan.on_read(sample, range); }});
}

// It may show that the reader is elsewhere, which takes a search, or in another epoch, which is to be drawn.
void SharedPlan::on_pack_read(cache::EntryId pack, const PageRange& range) {
  const auto read = std::make_shared<std::vector<SampleIndex>>();
  offer({.change = [pack, range, read](PushPlan& plan) { *read = plan.on_pack_read(pack, range); },
         .then = [this, read] { hear(*read); }});
}

void SharedPlan::on_open_by_read(SampleIndex sample) {
  offer({.change = [sample](PushPlan& plan) { plan.on_open_by_read(sample); },
         .then =
             [this, sample] {
               hear({&sample, 1});
             }});
}

bool SharedPlan::lacks(SampleIndex sample) {
  if (!mutex_.try_lock()) return true;
  const bool lacks = plan_.lacks(sample);
  mutex_.unlock();
  return lacks;
}

void SharedPlan::on_opens(std::span<const SampleIndex> samples) {
  const auto opens = std::make_shared<const std::vector<SampleIndex>>(samples.begin(), samples.end());
  MutexLock lock(queue_mutex_);
  while (is_running_ && waiting_.size() - offered_ >= kWaitingMax) room_.wait(lock);
  tell({.change = [opens](PushPlan& plan) { plan.on_opens(*opens); }, .then = [this, opens] { hear(*opens); }});
}

void SharedPlan::on_overflow() {
  MutexLock lock(queue_mutex_);
  tell({.change = [](PushPlan& plan) { plan.on_overflow(); },
        .then =
            [this] {
              if (listener_.on_overflow) listener_.on_overflow();
            }});
}

void SharedPlan::let_go(std::span<const SampleIndex> samples) {
  change(
      [samples = std::vector<SampleIndex>(samples.begin(), samples.end())](PushPlan& plan) { plan.let_go(samples); });
}

void SharedPlan::set_order(const OrderPosition& order) {
  change([order](PushPlan& plan) { plan.set_order(order); });
}

void SharedPlan::fill() {
  change([](PushPlan& plan) { plan.fill(); });
}

void SharedPlan::set_budget(std::uint64_t budget_bytes) {
  change([budget_bytes](PushPlan& plan) { plan.set_budget(budget_bytes); });
}

void SharedPlan::limit_budget(std::uint64_t budget_bytes) {
  change([budget_bytes](PushPlan& plan) { plan.limit_budget(budget_bytes); });
}

bool SharedPlan::take_losses() {
  return look([](PushPlan& plan) { return plan.take_losses(); });
}

std::optional<std::uint64_t> SharedPlan::on_pages_dropped() {
  return look([this](PushPlan& plan) -> std::optional<std::uint64_t> {
    if (!plan.on_pages_dropped()) return std::nullopt;
    on_taken_();
    MountStats stats;
    plan.add_stats(stats);
    return stats.copies_budget_bytes;
  });
}

cache::OrderFollower::Finding SharedPlan::take_finding() {
  return look([](PushPlan& plan) {
    Finding finding{.wants_order = plan.wants_order()};
    if (plan.take_contradiction()) finding.contradiction = {.spec = plan.given_up(), .is_all = !plan.order()};
    return finding;
  });
}

std::uint64_t SharedPlan::paused_opens() {
  return look([](const PushPlan& plan) { return plan.paused_opens(); });
}

std::uint64_t SharedPlan::budget_bytes() {
  return look([](const PushPlan& plan) { return plan.budget_bytes(); });
}

std::vector<SampleIndex> SharedPlan::pinned(SampleIndex first, std::size_t count) {
  return look([first, count](const PushPlan& plan) {
    std::vector<SampleIndex> samples;
    const PageCacheAccount& pages = plan.pages();
    if (pages.pinned_samples() == 0) return samples;
    for (SampleIndex sample = first; sample < pages.sizes().size() && samples.size() < count; ++sample) {
      if (pages.is_pinned(sample)) samples.push_back(sample);
    }
    return samples;
  });
}

PushProgress SharedPlan::progress() {
  return look([](const PushPlan& plan) { return plan.progress(); });
}

void SharedPlan::add_stats(MountStats& stats) {
  look([&stats](const PushPlan& plan) { plan.add_stats(stats); });
}

}  // namespace headrace::fuse
