// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/internal/source.h"

#include <array>
#include <bit>
#include <cerrno>
#include <future>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "headrace/io/file_system.h"
#include "headrace/io/log.h"
#include "headrace/io/open_beneath.h"

namespace headrace::cache {
namespace {

using io::Error;
using io::ErrorCode;
using io::MutexLock;

// Waits before the second and third attempt: a disk's own retries and a server's fail-over end within seconds, and a
// loader that waits much longer than this is better told.
constexpr std::array<std::chrono::milliseconds, 2> kRetryDelays{std::chrono::milliseconds(20),
                                                                std::chrono::milliseconds(250)};
// Paths remembered so that each is logged once; beyond these, stale files are only counted.
constexpr std::size_t kStalePathsMax = 1024;

bool may_pass(const Error& error) {
  return error.code == ErrorCode::kSystem || error.code == ErrorCode::kTimedOut;
}

}  // namespace

Result<std::unique_ptr<Source>> Source::open(const StoreOptions& options, TimerThread& timers) {
  io::UniqueFd owned;
  if (options.source_fd < 0) {
    owned.reset(::open(options.source.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!owned.valid()) return io::system_error(errno, "open " + options.source.string());
  }
  const int fd = owned.valid() ? owned.get() : options.source_fd;
  const io::FileSystemTraits file_system = io::describe_file_system(fd);
  std::unique_ptr<Source> source(
      new Source(fd, std::move(owned), options.source.string(), file_system.in_memory, timers));
  auto thread = options.make_source_engine ? io::IoThread::start("hr-source", options.make_source_engine)
                                           : io::IoThread::start({.name = "hr-source", .engine = options.engine});
  if (!thread) return io::forward_error(std::move(thread));
  source->thread_ = std::move(*thread);
  source->opens_wait_ = file_system.opens_wait;
  source->page_cache_enabled_ = !options.make_source_engine && !file_system.opens_wait;
  source->cache_mode_ = file_system.cache_mode;
  if (options.source_rotational.value_or(file_system.rotational)) source->start_sweep();
  return source;
}

Source::Source(int fd, io::UniqueFd owned_fd, std::string name, bool in_memory, TimerThread& timers)
    : fd_(fd), owned_fd_(std::move(owned_fd)), name_(std::move(name)), timers_(timers), page_cache_(fd, in_memory) {}

bool Source::read_now(SourceRead& read) {
  if (read.range.offset != 0 || !page_cache_enabled_) return false;
  if (!page_cache_.try_read(read.path, {read.buffer.data(), read.range.length})) return false;
  read.data = read.buffer.data();
  count_success(read.range.length);
  return true;
}

void Source::count_success(std::uint64_t bytes) {
  note_success();
  reads_.fetch_add(1, std::memory_order_relaxed);
  read_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void Source::start_sweep() {
  sweep_ = std::make_unique<Sweep>(Sweep::Options{.place_of = [this](const SourceRead& read) { return place_of(read); },
                                                  .issue = [this](SourceRead& read) { submit(read); }});
}

std::optional<std::uint64_t> Source::place_of(const SourceRead& read) const {
  const io::UniqueFd file(io::open_beneath(fd_, read.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const auto begin = file.valid() ? io::physical_offset(file.get()) : std::nullopt;
  return begin ? std::optional(*begin + read.range.offset) : std::nullopt;  // the chunks of a file mostly adjoin
}

void Source::read(SourceRead& read) {
  read.source = this;
  read.attempt = 0;
  if (read.ahead && sweep_) return sweep_->add(read);
  submit(read);
}

void Source::submit(SourceRead& read) {
  read.operation =
      io::Operation::read_path(fd_, read.path, read.range.offset, read.range.length, std::move(read.buffer));
  read.operation.cache_mode = cache_mode_;
  read.operation.opens_wait = opens_wait_;
  read.operation.context = &read;
  read.operation.on_complete = [](io::Operation& operation, Result<std::uint64_t> bytes) {
    SourceRead& self = *static_cast<SourceRead*>(operation.context);
    self.source->finish(self, std::move(bytes));
  };
  thread_->submit(read.operation);
}

void Source::finish(SourceRead& read, Result<std::uint64_t> bytes) {
  read.data = read.operation.data();
  read.buffer = std::move(read.operation.buffer);
  if (!bytes && retry_later(read, bytes.error())) return;
  if (read.ahead && sweep_) sweep_->on_done();
  if (!bytes) {
    note_failure(bytes.error());
    return read.on_done(read, io::forward_error(std::move(bytes)));
  }
  if (*bytes < read.range.length) return read.on_done(read, tl::unexpected<Error>(note_stale(read, *bytes)));
  count_success(*bytes);
  read.on_done(read, {});
}

void Source::join() {
  if (sweep_) sweep_->close();  // what waits there is cancelled with the rest
  thread_.reset();
}

void Source::settle() {
  std::promise<void> reached;
  post([&reached] { reached.set_value(); });
  reached.get_future().wait();
}

bool Source::retry_later(SourceRead& read, const Error& error) {
  if (stopping_.load() || !may_pass(error) || read.attempt >= kRetryDelays.size()) return false;
  timers_.after(kRetryDelays[read.attempt++], [this, &read] { submit(read); });
  return true;
}

void Source::note_failure(const Error& error) {
  if (error.code == ErrorCode::kCancelled) return;
  errors_.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t in_a_row = failures_in_a_row_.fetch_add(1) + 1;
  if (!std::has_single_bit(in_a_row)) return;  // the 1st, 2nd, 4th, 8th ...
  io::log_warning("source {}: {} ({} reads failed in a row)", name_, error.message(), in_a_row);
  MutexLock lock(mutex_);
  last_failure_ = error.message();
}

void Source::note_success() {
  if (failures_in_a_row_.load(std::memory_order_relaxed) == 0) return;
  const std::uint64_t failed = failures_in_a_row_.exchange(0);
  if (failed > 0) io::log_info("source {}: reads work again after {} failures", name_, failed);
}

Error Source::note_stale(const SourceRead& read, std::uint64_t bytes) {
  errors_.fetch_add(1, std::memory_order_relaxed);
  Error error{ErrorCode::kStale, 0,
              fmt::format("read {}: ends {} bytes before its catalogued size", read.path, read.range.length - bytes)};
  MutexLock lock(mutex_);
  const bool first = stale_paths_.size() < kStalePathsMax && stale_paths_.insert(read.path).second;
  lock.unlock();
  if (first) io::log_warning("source {}: {}", name_, error.message());
  return error;
}

TierStats Source::stats() const {
  TierStats stats;
  stats.kind = TierKind::kSource;
  stats.path = name_;
  stats.hits = reads_.load(std::memory_order_relaxed);
  stats.hit_bytes = read_bytes_.load(std::memory_order_relaxed);
  stats.errors = errors_.load(std::memory_order_relaxed);
  stats.state = "ok";
  if (sweep_) {
    stats.placement = sweep_->sorts() ? "hard disk: reads ahead are sorted by where files lie"
                                      : "says it is a hard disk, but does not seek: reads are not sorted";
  }
  if (failures_in_a_row_.load() > 0) {
    MutexLock lock(mutex_);
    stats.state = "failing: " + last_failure_;
  }
  return stats;
}

}  // namespace headrace::cache
