// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/pread_engine.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <unistd.h>

#include "headrace/io/internal/depth_controller.h"
#include "headrace/io/internal/operation_queue.h"
#include "headrace/io/internal/perform.h"
#include "headrace/io/internal/transfer.h"
#include "headrace/io/internal/waiting_operations.h"
#include "headrace/io/log.h"
#include "headrace/io/mutex.h"

namespace headrace::io {
namespace {

using internal::DepthController;
using internal::OperationQueue;
using internal::WaitingOperations;
using Place = Operation::Internal::Place;

// A thread per read in flight. 64: a network share at 10 ms still gives 6 400 reads/s; a local SSD needs fewer, and
// threads are started only while operations wait for one.
constexpr unsigned kThreadsMax = 64;

class PreadEngine final : public Engine {
 public:
  PreadEngine(const EngineOptions& options, std::string fallback_reason)
      : fallback_reason_(std::move(fallback_reason)),
        depth_(internal::depth_options(options, kThreadsMax)),
        depth_limit_(depth_.depth()) {}
  ~PreadEngine() override;

  // The first thread shows whether threads can be had at all.
  [[nodiscard]] Status start_first_thread();

  void submit(Operation& operation) override;
  void wait(std::chrono::steady_clock::time_point deadline) override;
  void wake() override;
  [[nodiscard]] std::size_t in_flight() const override { return in_flight_; }
  [[nodiscard]] std::size_t waiting() const override {
    MutexLock lock(mutex_);
    return queued_.size();
  }
  void hurry() override;
  [[nodiscard]] EngineInfo info() const override;
  void register_file(int) override {}  // a descriptor is as cheap as it gets here
  void unregister_file(int) override {}
  void set_rotational(bool rotational) override {
    depth_.set_rotational(rotational);
    depth_limit_.store(depth_.depth(), std::memory_order_relaxed);
  }

 private:
  void work(std::size_t number);
  void end_queued(Operation& operation) HEADRACE_REQUIRES(mutex_);
  void push_finished(Operation& operation) HEADRACE_REQUIRES(mutex_);
  void start_thread() HEADRACE_REQUIRES(mutex_);
  void start_wanted_threads() HEADRACE_REQUIRES(mutex_);
  void run(OperationQueue finished, bool limited);

  const std::string fallback_reason_;
  std::atomic<std::uint64_t> buffered_fallbacks_{0};

  // Driving thread only.
  std::size_t in_flight_ = 0;
  DepthController depth_;

  std::atomic<unsigned> depth_limit_;  // written by the driving thread

  mutable Mutex mutex_;
  CondVar work_changed_;      // workers wait here
  CondVar finished_changed_;  // the driving thread waits here
  WaitingOperations queued_ HEADRACE_GUARDED_BY(mutex_);
  OperationQueue finished_ HEADRACE_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ HEADRACE_GUARDED_BY(mutex_);
  unsigned busy_ HEADRACE_GUARDED_BY(mutex_) = 0;
  bool woken_ HEADRACE_GUARDED_BY(mutex_) = false;
  bool closing_ HEADRACE_GUARDED_BY(mutex_) = false;
};

PreadEngine::~PreadEngine() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    closing_ = true;
    while (!queued_.empty()) end_queued(queued_.pop());
    work_changed_.notify_all();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
  while (in_flight_ > 0) wait(std::chrono::steady_clock::time_point::max());
}

Status PreadEngine::start_first_thread() {
  MutexLock lock(mutex_);
  try {
    start_thread();
  } catch (const std::system_error& error) {
    return system_error(error.code().value(), "start a reading thread");
  }
  return {};
}

void PreadEngine::start_thread() {
  threads_.emplace_back([this, number = threads_.size()] { work(number); });
}

// Starts a thread for each operation that may start. A thread that was woken or started counts as idle
// until it runs. So when many operations are submitted at once, each gets a thread.
void PreadEngine::start_wanted_threads() {
  const unsigned depth = depth_limit_.load(std::memory_order_relaxed);
  try {
    while (queued_.may_start(static_cast<unsigned>(threads_.size()), depth) &&
           queued_.size() > threads_.size() - busy_) {
      start_thread();
    }
  } catch (const std::system_error& error) {
    // The process may have no more threads. Operations wait for one of those that it has.
    log_debug("no further reading thread: {}", error.what());
  }
}

void PreadEngine::submit(Operation& operation) {
  internal::begin(operation);
  ++in_flight_;
  MutexLock lock(mutex_);
  if (closing_) return end_queued(operation);
  operation.internal.place = Place::kQueued;
  queued_.push(operation);
  start_wanted_threads();
  work_changed_.notify_one();
}

void PreadEngine::hurry() {
  MutexLock lock(mutex_);
  queued_.hurry();
  start_wanted_threads();
  work_changed_.notify_all();
}

// The engine goes down: what no thread has begun ends here.
void PreadEngine::end_queued(Operation& operation) {
  internal::finish(operation, -ECANCELED);
  push_finished(operation);
}

void PreadEngine::push_finished(Operation& operation) {
  operation.internal.place = Place::kFinished;
  finished_.push_back(operation);
}

void PreadEngine::wait(std::chrono::steady_clock::time_point deadline) {
  bool limited = false;
  OperationQueue finished;
  {
    MutexLock lock(mutex_);
    while (!woken_ && finished_.empty()) {
      if (deadline == std::chrono::steady_clock::time_point::max()) {
        finished_changed_.wait(lock);
      } else if (!finished_changed_.wait_until(lock, deadline)) {
        break;
      }
    }
    woken_ = false;
    finished = finished_.take();
    limited = !queued_.empty();
  }
  run(finished, limited);
}

void PreadEngine::run(OperationQueue finished, bool limited) {
  const auto now = std::chrono::steady_clock::now();
  while (!finished.empty()) {
    Operation& operation = finished.pop_front();
    --in_flight_;
    internal::count_fallback(operation, buffered_fallbacks_);
    depth_.on_finished(operation.internal.progress_bytes, limited, now);
    internal::deliver(operation);
  }
  if (depth_.depth() == depth_limit_.load(std::memory_order_relaxed)) return;
  depth_limit_.store(depth_.depth(), std::memory_order_relaxed);
  MutexLock lock(mutex_);
  start_wanted_threads();
  work_changed_.notify_all();
}

void PreadEngine::wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  finished_changed_.notify_one();
}

EngineInfo PreadEngine::info() const {
  EngineInfo info;
  info.name = "pread";
  info.fallback_reason = fallback_reason_;
  info.queue_depth = depth_limit_.load(std::memory_order_relaxed);
  info.queue_depth_max = depth_.depth_max();
  info.buffered_fallbacks = buffered_fallbacks_.load(std::memory_order_relaxed);
  return info;
}

void PreadEngine::work(std::size_t number) {
  const std::string name = "hr-pread-" + std::to_string(number);
  ::pthread_setname_np(::pthread_self(), name.c_str());
  MutexLock lock(mutex_);
  for (;;) {
    while (!closing_ && !queued_.may_start(busy_, depth_limit_.load(std::memory_order_relaxed))) {
      work_changed_.wait(lock);
    }
    if (closing_) return;  // what waited has ended already
    Operation& operation = queued_.pop();
    operation.internal.place = Place::kStarted;
    ++busy_;
    lock.unlock();
    internal::perform(operation);
    lock.lock();
    --busy_;
    push_finished(operation);
    finished_changed_.notify_one();
  }
}

}  // namespace

Result<std::unique_ptr<Engine>> open_pread_engine(const EngineOptions& options, std::string fallback_reason) {
  auto engine = std::make_unique<PreadEngine>(options, std::move(fallback_reason));
  HEADRACE_TRY_DO(engine->start_first_thread());
  return engine;
}

}  // namespace headrace::io
