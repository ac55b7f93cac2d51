// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/worker_pool.h"

#include <atomic>
#include <string>
#include <thread>

#include <pthread.h>
#include <sched.h>

#include "headrace/decode/internal/queue.h"
#include "headrace/decode/usable_cores.h"
#include "headrace/io/log.h"

#if defined(__SANITIZE_THREAD__)
#define HEADRACE_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HEADRACE_THREAD_SANITIZER
#endif
#endif

#ifdef HEADRACE_THREAD_SANITIZER
// Boost's queue reads nodes that another thread may be recycling at that moment, and lets a tagged compare-and-swap
// reject what it read. The thread sanitizer cannot know that. No code of headrace runs below these functions. Known to
// it by this name; here, where the queue is, it holds for whatever program decodes.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:boost::lockfree::\n";
}
#endif

namespace headrace::decode {
namespace {

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0) return;
  io::log_warning("cannot pin a decoder thread to CPU {}; it runs anywhere", cpu);
}

std::unique_ptr<CropIndexFolder> open_folder(const WorkerOptions& options) {
  if (options.crop_index_folder.empty() || options.crop_index_bytes == 0) return nullptr;
  auto folder = CropIndexFolder::open(options.crop_index_folder);
  if (folder) return *std::move(folder);
  io::log_warning("indexes of JPEGs are kept in memory only: {}", folder.error().message());
  return nullptr;
}

}  // namespace

struct WorkerPool::Impl {
  Impl(std::size_t queue_capacity, const WorkerOptions& options, StageCounters& stage_counters)
      : queue(queue_capacity),
        index_folder(open_folder(options)),
        crop_indexes(options.crop_index_bytes, index_folder.get()),
        counters(stage_counters) {}

  [[nodiscard]] std::unique_ptr<Worker> make_worker(const WorkerOptions& options) {
    auto worker = std::make_unique<Worker>(options.decode);
    worker->decoder.end_when(stopped);
    if (options.crop_index_bytes > 0) worker->decoder.use_indexes(crop_indexes);
    return worker;
  }

  void work(unsigned number, const WorkerOptions& options, Worker& worker) {
    pthread_setname_np(pthread_self(), ("hr-decode-" + std::to_string(number)).c_str());
    if (options.pin_threads) {
      const std::vector<int> cpus = allowed_cpus();
      pin_to(cpus[number % cpus.size()]);
    }
    Task task;
    while (!queue.closed() && pop(task)) task.job->run(worker, task.part);
  }

  bool pop(Task& task) {
    const StageCounters::Timer timer(counters.idle_ns);
    return queue.pop(task);
  }

  BoundedQueue<Task> queue;
  const std::unique_ptr<CropIndexFolder> index_folder;  // nullptr: none
  CropIndexes crop_indexes;
  std::atomic<bool> stopped = false;
  StageCounters& counters;
  // The threads end after the tasks that they have begun.
  void close() {
    stopped = true;
    queue.close();
  }
  void join() {
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<std::thread> threads;
};

WorkerPool::WorkerPool(const WorkerOptions& options, std::size_t queue_capacity, StageCounters& counters)
    : impl_(std::make_unique<Impl>(queue_capacity, options, counters)) {
  const unsigned count = options.threads > 0 ? options.threads : usable_cores();
  try {
    impl_->threads.reserve(count);
    for (unsigned i = 0; i < count; ++i) {
      // Made here, where somebody can be told that there is no memory for it.
      impl_->threads.emplace_back(
          [impl = impl_.get(), i, options, worker = impl_->make_worker(options)] { impl->work(i, options, *worker); });
    }
  } catch (...) {  // no memory, or no thread; those that run end before what they use does
    impl_->close();
    impl_->join();
    throw;
  }
}

WorkerPool::~WorkerPool() {
  impl_->close();
  impl_->join();
}

bool WorkerPool::submit(const Task& task) {
  return impl_->queue.push(task);
}
void WorkerPool::close() {
  impl_->close();
}
std::size_t WorkerPool::queue_depth() const {
  return impl_->queue.depth();
}
CropReport WorkerPool::crops() const {
  return impl_->crop_indexes.report();
}

}  // namespace headrace::decode
