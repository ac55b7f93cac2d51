// SPDX-License-Identifier: Apache-2.0
// The decoder threads: they take tasks from one bounded queue and run them.
//
//   WorkerPool pool({.threads = 2}, queue_capacity, counters);
//   pool.submit({&job, 7});   // job.run(worker, 7) on one of the threads
//
// Thread-safety: every function from any thread. Destruction closes and joins; tasks not begun are dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "headrace/decode/crop_indexes.h"
#include "headrace/decode/decode_options.h"
#include "headrace/decode/image_decoder.h"
#include "headrace/decode/sample_transformer.h"
#include "headrace/decode/stage_report.h"

namespace headrace::decode {

// What a thread keeps from task to task.
struct Worker {
  explicit Worker(const DecodeOptions& options) : decoder(options) {}
  ImageDecoder decoder;
  std::optional<SampleTransformer> transformer;  // made by the first job that needs it
};

class Job {
 public:
  virtual ~Job() = default;
  // On a decoder thread; must not throw. `part` is what the task said.
  virtual void run(Worker& worker, std::uint32_t part) noexcept = 0;
};

struct Task {
  Job* job = nullptr;  // not owned; alive until it ran or the pool stopped
  std::uint32_t part = 0;
};

struct WorkerOptions {
  unsigned threads = 0;      // 0: as many as this process may use at once (usable_cores.h)
  bool pin_threads = false;  // thread i stays on the i-th allowed CPU: steadier figures, worse beside other work
  DecodeOptions decode = {};
  // Memory for where to begin within JPEGs (crop_indexes.h), which all threads share; taken as crops need it, 1.5 kB
  // for a photograph of 110 kB. 256 MiB: of about 170 000 such files. 0: crops do without.
  std::size_t crop_index_bytes = std::size_t{256} << 20;
  // Where these indexes are kept for later, and for other processes (crop_index_folder.h). Empty: nowhere. Where it
  // cannot be used, memory does without it; the log says why.
  std::filesystem::path crop_index_folder;
};

class WorkerPool {
 public:
  // `counters` outlive the pool, which adds the time that its threads idle. Throws std::system_error or std::bad_alloc
  // where a thread cannot be made; none is left then.
  WorkerPool(const WorkerOptions& options, std::size_t queue_capacity, StageCounters& counters);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Sleeps while the queue is full. False: closed.
  bool submit(const Task& task);
  // Ends submit(), now and later. The threads end after the tasks that they have begun, and a JPEG that such a task is
  // decoding ends with kCancelled.
  void close();
  // A moment's figure.
  [[nodiscard]] std::size_t queue_depth() const;
  [[nodiscard]] CropReport crops() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::decode
