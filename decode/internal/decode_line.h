// SPDX-License-Identifier: Apache-2.0
// What Pipeline and BatchLoader have in common: samples from a source through the decoder threads to a consumer, in
// groups of rows that come out in the order of the source.
//
//   DecodeLine line(std::move(source), {.workers = workers, .groups = 3, .rows_per_group = 256, ...}, row_decoder);
//   line.start();
//   while (RowGroup* group = line.front()) {   // sleeps until the next group is complete
//     use(*group);
//     line.release();
//   }
//
// One feeder thread (hr-feed) takes samples from the source and puts them into rows; the threads of a WorkerPool
// (hr-decode-N) decode the rows. A group never spans two epochs. With no free group the feeder sleeps.
//
// Thread-safety: front(), await_front() and release() from one thread; the others from any thread. Destruction stops
// and joins.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "headrace/decode/internal/ordered_ring.h"
#include "headrace/decode/internal/queue.h"
#include "headrace/decode/sample_source.h"
#include "headrace/decode/stage_report.h"
#include "headrace/decode/worker_pool.h"

namespace headrace::decode {

struct BatchBuffer;

struct Row {
  RawSample raw;       // its bytes are let go once decoded
  Status status;       // why it could not be decoded; names the file
  std::string damage;  // what was repaired; empty for a sound file
  ShownPart shown;     // BatchLoader: set by decode_row()
  EncodedPart part;    // BatchLoader with decode_elsewhere: set by decode_row()
};

// Ownership: by turns the feeder's (which fills `rows`), each row for its decoder thread, and the consumer's.
struct RowGroup {
  std::uint64_t epoch = 0;
  std::vector<Row> rows;          // as many as a group may have
  std::size_t row_count = 0;      // in use
  std::size_t target_rows = 0;    // how many it gets unless the epoch ends before
  BatchBuffer* buffer = nullptr;  // BatchLoader: where the pixels of the rows go
  // Rows not decoded yet, and one more until the feeder has added the last row. Whoever makes it zero completes the
  // group.
  std::atomic<std::size_t> unfinished = 0;
};

// What Pipeline and BatchLoader each do in their own way: what becomes of a row, and where its pixels go.
class RowDecoder {
 public:
  virtual ~RowDecoder() = default;
  // On the feeder's thread, before the first row of a group, whose epoch is set: sets `target_rows`. False: stopped.
  [[nodiscard]] virtual bool begin_group(RowGroup& group) = 0;
  // On a decoder thread, for the row of this number, whose bytes are there. May throw std::bad_alloc.
  [[nodiscard]] virtual Status decode_row(Worker& worker, RowGroup& group, std::size_t number) = 0;
  // On a decoder thread, after decode_row() or the source failed.
  virtual void handle_bad_row(const RowGroup& group, std::size_t number) = 0;
};

struct LineOptions {
  WorkerOptions workers = {};  // with the number of threads
  std::size_t groups = 0;
  std::size_t rows_per_group = 1;
  std::size_t queued_rows = 0;  // rows that may wait for a decoder thread; each pins memory of the cache
};

class DecodeLine final : private Job {
 public:
  // `decoder` outlives the line. It is called from start() on.
  DecodeLine(std::unique_ptr<SampleSource> source, const LineOptions& options, RowDecoder& decoder);
  ~DecodeLine() override;
  DecodeLine(const DecodeLine&) = delete;
  DecodeLine& operator=(const DecodeLine&) = delete;

  void start();

  // The same group until release(). nullptr: all samples came out, or stopped.
  [[nodiscard]] RowGroup* front() { return ring_.front(); }
  void release() { ring_.release(); }
  // Sleeps until front() would not. False: the deadline passed first.
  [[nodiscard]] bool await_front(std::chrono::steady_clock::time_point deadline) { return ring_.await_front(deadline); }
  [[nodiscard]] std::size_t place_of(const RowGroup& group) const { return ring_.place_of(group); }

  // Takes no further samples from the source until resume(); what is under way is finished.
  void pause();
  void resume();
  // Cancels the source, ends the decodes that are under way and front(), now and later.
  void stop();

  [[nodiscard]] const SampleSource& source() const { return *source_; }
  [[nodiscard]] StageCounters& counters() { return counters_; }
  [[nodiscard]] StageReport report() const;

 private:
  void feed();
  std::optional<RawSample> next_raw();
  RowGroup* open_group(std::uint64_t epoch);
  bool add_row(RowGroup& group, RawSample raw);
  void finish_part(RowGroup& group);

  void run(Worker& worker, std::uint32_t part) noexcept override;
  Status decode(Worker& worker, RowGroup& group, std::size_t number);

  // Constant after construction.
  const LineOptions options_;
  RowDecoder& decoder_;

  // Synchronise themselves.
  const std::unique_ptr<SampleSource> source_;
  StageCounters counters_;
  EventCount gate_;  // opened and closed by pause(), resume() and stop()
  std::atomic<bool> paused_ = false;
  std::atomic<bool> stopped_ = false;
  OrderedRing<RowGroup> ring_;
  WorkerPool workers_;
  std::thread feeder_;
};

}  // namespace headrace::decode
