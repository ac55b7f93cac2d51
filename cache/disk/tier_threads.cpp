// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/disk/tier_threads.h"

#include <algorithm>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "headrace/io/environment.h"
#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

// A thread takes a processor whole when it is busy, and the trainings and the pushing need most of these. Four bring 25
// GB/s, more than eight NVMe disks give behind one file system.
constexpr unsigned kProcessorsPerThread = 4;
constexpr unsigned kThreadsMax = 4;

// HEADRACE_TIER_THREADS is for tests: of several threads where there are few processors. 0: it says nothing.
unsigned asked_by_environment() {
  const char* const text = io::environment("HEADRACE_TIER_THREADS");
  const unsigned long count = text != nullptr ? std::strtoul(text, nullptr, 10) : 0;
  return static_cast<unsigned>(std::min<unsigned long>(count, kThreadsMax));
}

unsigned count_of(const TierThreadsOptions& options) {
  if (options.count > 0) return options.count;
  if (options.kind == TierKind::kHdd) return 1;
  if (const unsigned asked = asked_by_environment(); asked > 0) return asked;
  return tier_thread_count(options.kind, std::thread::hardware_concurrency());
}

}  // namespace

// The head of a hard disk is at one place at a time: one thread, which sees all that waits for it.
unsigned tier_thread_count(TierKind kind, unsigned processors) {
  return kind == TierKind::kHdd ? 1 : std::clamp(processors / kProcessorsPerThread, 1U, kThreadsMax);
}

io::Result<std::unique_ptr<TierThreads>> TierThreads::start(const TierThreadsOptions& options) {
  const unsigned count = count_of(options);
  std::unique_ptr<TierThreads> threads(new TierThreads);
  io::EngineOptions engine = options.engine;
  engine.rotational = options.kind == TierKind::kHdd;
  engine.queue_depth_max = std::max(1U, engine.queue_depth_max / count);  // the device sees what one ring would show it
  for (unsigned i = 0; i < count; ++i) {
    std::string name = engine.rotational ? "hr-hdd" : "hr-ssd";
    if (i > 0) name += "-" + std::to_string(i + 1);
    auto lane = std::make_unique<Lane>();
    auto thread = options.make_engine ? io::IoThread::start(name, options.make_engine)
                                      : io::IoThread::start({.name = name, .engine = engine});
    if (!thread) {
      if (i == 0) return io::forward_error(std::move(thread));
      io::log_warning("a disk tier is read by {} of {} threads: {}", i, count, thread.error().message());
      break;
    }
    lane->thread = std::move(*thread);
    threads->lanes_.push_back(std::move(lane));
  }
  return threads;
}

// Others take turns meanwhile: what is found is good enough. Of several the last one, because the first is the writer,
// which saves indexes and removes segments without a turn.
TierThreads::Turn TierThreads::take_turn() {
  const auto fewest = std::min_element(lanes_.rbegin(), lanes_.rend(), [](const auto& a, const auto& b) {
    return a->turns.load(std::memory_order_relaxed) < b->turns.load(std::memory_order_relaxed);
  });
  return Turn(**fewest);
}

void TierThreads::hurry() {
  for (const auto& lane : lanes_) lane->thread->hurry();
}

void TierThreads::register_file(int fd) {
  for (const auto& lane : lanes_) lane->thread->register_file(fd);
}

void TierThreads::unregister_file(int fd, const std::shared_ptr<void>& owner) {
  for (const auto& lane : lanes_) {
    lane->thread->unregister_file(fd);
    lane->thread->post([owner] {});
  }
}

void TierThreads::settle() {
  for (const auto& lane : lanes_) {
    std::promise<void> reached;
    lane->thread->post([&reached] { reached.set_value(); });
    reached.get_future().wait();
  }
}

// All are stopped before any of them goes: what ends on one may begin something on another.
void TierThreads::stop() {
  for (const auto& lane : lanes_) lane->thread->stop();
}

}  // namespace headrace::cache
