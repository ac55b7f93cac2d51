// SPDX-License-Identifier: Apache-2.0
#include "headrace/decode/internal/decode_line.h"

#include <cerrno>
#include <new>
#include <utility>

#include <pthread.h>

namespace headrace::decode {

DecodeLine::DecodeLine(std::unique_ptr<SampleSource> source, const LineOptions& options, RowDecoder& decoder)
    : options_(options),
      decoder_(decoder),
      source_(std::move(source)),
      ring_(options.groups),
      workers_(options.workers, options.queued_rows, counters_) {
  for (RowGroup& group : ring_.items()) group.rows.resize(options.rows_per_group);
}

DecodeLine::~DecodeLine() {
  stop();
  if (feeder_.joinable()) feeder_.join();
}

void DecodeLine::start() {
  feeder_ = std::thread([this] { feed(); });
}

void DecodeLine::feed() {
  pthread_setname_np(pthread_self(), "hr-feed");
  RowGroup* group = nullptr;
  while (std::optional<RawSample> raw = next_raw()) {
    if (group != nullptr && group->epoch != raw->epoch) finish_part(*std::exchange(group, nullptr));
    if (group == nullptr) group = open_group(raw->epoch);
    if (group == nullptr || !add_row(*group, std::move(*raw))) return;  // stopped
    if (group->row_count == group->target_rows) finish_part(*std::exchange(group, nullptr));
  }
  if (group != nullptr) finish_part(*group);
  ring_.finish();
}

std::optional<RawSample> DecodeLine::next_raw() {
  gate_.await([this] { return !paused_ || stopped_; });
  const StageCounters::Timer timer(counters_.read_ns);
  return source_->next();
}

RowGroup* DecodeLine::open_group(std::uint64_t epoch) {
  const StageCounters::Timer timer(counters_.held_back_ns);
  RowGroup* group = ring_.acquire();
  if (group == nullptr) return nullptr;
  group->epoch = epoch;
  group->row_count = 0;
  group->unfinished = 1;  // the feeder's own part
  return decoder_.begin_group(*group) ? group : nullptr;
}

bool DecodeLine::add_row(RowGroup& group, RawSample raw) {
  const std::size_t part = ring_.place_of(group) * options_.rows_per_group + group.row_count;
  group.rows[group.row_count++].raw = std::move(raw);
  ++group.unfinished;
  const StageCounters::Timer timer(counters_.held_back_ns);
  return workers_.submit({this, static_cast<std::uint32_t>(part)});
}

void DecodeLine::finish_part(RowGroup& group) {
  if (group.unfinished.fetch_sub(1) == 1) ring_.complete(group);
}

void DecodeLine::run(Worker& worker, std::uint32_t part) noexcept {
  RowGroup& group = ring_.items()[part / options_.rows_per_group];
  const std::size_t number = part % options_.rows_per_group;
  Row& row = group.rows[number];
  counters_.count_sample(row.raw.bytes ? row.raw.bytes->size() : 0, row.raw.served_from, workers_.queue_depth());
  row.shown = {};
  row.part = {};
  row.status = decode(worker, group, number);
  row.damage = row.status ? worker.decoder.damage() : std::string();
  // What stop() ended is no bad sample, and nobody gets this group.
  if (!row.status && row.status.error().code != io::ErrorCode::kCancelled) {
    row.status.error().context = source_->path(row.raw.index) + ": " + row.status.error().context;
    counters_.bad_samples.fetch_add(1, std::memory_order_relaxed);
    decoder_.handle_bad_row(group, number);
  }
  row.raw.pin.reset();  // lets the cache have its memory back
  finish_part(group);
}

Status DecodeLine::decode(Worker& worker, RowGroup& group, std::size_t number) try {
  const RawSample& raw = group.rows[number].raw;
  if (!raw.bytes) return tl::unexpected(raw.bytes.error());
  return decoder_.decode_row(worker, group, number);
} catch (const std::bad_alloc&) {
  return io::system_error(ENOMEM, "decode");
}

void DecodeLine::pause() {
  paused_ = true;
}

void DecodeLine::resume() {
  paused_ = false;
  gate_.notify_all();
}

void DecodeLine::stop() {
  stopped_ = true;
  source_->cancel();
  gate_.notify_all();
  ring_.close();
  workers_.close();
}

StageReport DecodeLine::report() const {
  StageReport report = counters_.report();
  report.threads = options_.workers.threads;
  report.queue_capacity = options_.queued_rows;
  report.crops = workers_.crops();
  return report;
}

}  // namespace headrace::decode
