// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/source/folder_source.h"

#include <array>
#include <cerrno>
#include <future>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "headrace/cache/source/young_file.h"
#include "headrace/io/file_system.h"
#include "headrace/io/log.h"
#include "headrace/io/open_beneath.h"
#include "headrace/io/open_files.h"

namespace headrace::cache {
namespace {

using io::Error;
using io::ErrorCode;
using io::MutexLock;

// Waits before the second and third attempt: a disk's own retries and a server's fail-over end within seconds, and a
// loader that waits much longer than this is better told.
constexpr std::array<std::chrono::milliseconds, 2> kRetryDelays{std::chrono::milliseconds(20),
                                                                std::chrono::milliseconds(250)};
// A look costs an open and a stat of a directory, and a dead server may keep both waiting.
constexpr std::chrono::seconds kLookInterval{1};

// To compare a local file takes 5 us where its inode is in memory, 100 to 200 us from an SSD. After one that took
// longer the next ones are left to the I/O thread, so that at most one in 256 waits that long.
constexpr std::chrono::microseconds kCompareWaited{500};
constexpr unsigned kPauseAfterWait = 256;

// Zero where no byte is read.
std::chrono::nanoseconds time_to_settle(const SourceRead& read) {
  using std::chrono::nanoseconds;
  if (read.range.length == 0) return {};
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return cache::time_to_settle(read.identity.ctime_ns, std::chrono::duration_cast<nanoseconds>(now).count());
}

bool may_pass(const Error& error) {
  return error.code == ErrorCode::kSystem || error.code == ErrorCode::kTimedOut || error.os_errno == ESTALE;
}

}  // namespace

Result<std::unique_ptr<FolderSource>> FolderSource::open(const FolderSourceOptions& options,
                                                         std::shared_ptr<SourceRoot> root, io::TimerThread& timers) {
  // The files that are kept, as many that are read, and as many that a slow server is still closing.
  io::allow_open_files(std::uint64_t{4} * kKeptFilesMax);
  std::unique_ptr<FolderSource> source(new FolderSource(options, std::move(root), timers));
  io::EngineOptions engine = options.engine;
  engine.rotational = options.rotational.value_or(false);  // what the kernel says has to prove true first
  HEADRACE_TRY(thread, options.make_engine ? io::IoThread::start("hr-source", options.make_engine)
                                           : io::IoThread::start({.name = "hr-source", .engine = engine}));
  source->thread_ = std::move(thread);
  if (options.rotational.value_or(source->root()->file_system().rotational)) {
    source->start_sweep(options.rotational.has_value());
  }
  return source;
}

FolderSource::FolderSource(const FolderSourceOptions& options, std::shared_ptr<SourceRoot> root,
                           io::TimerThread& timers)
    : counts_(options.name),
      remount_path_(options.remount_path),
      engine_only_(options.make_engine != nullptr),
      timers_(timers),
      kept_(timers, slow_),
      root_(std::move(root)) {}

std::shared_ptr<SourceRoot> FolderSource::root() const {
  MutexLock lock(mutex_);
  return root_;
}

bool FolderSource::read_now(SourceRead& read) {
  if (read.range.offset != 0 || engine_only_) return false;
  const std::shared_ptr<SourceRoot> now = root();
  if (now->file_system().opens_wait || time_to_settle(read) > std::chrono::nanoseconds(0)) return false;
  if (!now->page_cache().try_read(read.path, {read.buffer.data(), read.range.length}, &read.identity)) return false;
  read.data = read.buffer.data();
  counts_.note_success(read.range.length);
  return true;
}

bool FolderSource::has_now(const char* path, const Identity& identity) {
  const std::shared_ptr<SourceRoot> now = root();
  if (engine_only_ || (sweep_ && sweep_->sorts()) || now->file_system().opens_wait) return false;
  unsigned pause = compare_pause_.load(std::memory_order_relaxed);
  if (pause > 0) {
    compare_pause_.compare_exchange_strong(pause, pause - 1, std::memory_order_relaxed);  // a lost race costs a count
    return false;
  }
  const auto begin = std::chrono::steady_clock::now();
  const bool same = now->has_file(path, identity);
  if (std::chrono::steady_clock::now() - begin > kCompareWaited) {
    compare_pause_.store(kPauseAfterWait, std::memory_order_relaxed);
  }
  return same;
}

void FolderSource::start_sweep(bool seeks_at_first) {
  sweep_ = std::make_unique<Sweep>(
      Sweep::Options{.disk_offset_of = [this](const SourceRead& read) { return disk_offset_of(read); },
                     .issue = [this](SourceRead& read) { submit(read); },
                     .on_verdict = [this](bool seeks) { limit_depth(seeks); },
                     .seeks_at_first = seeks_at_first});
}

// Reads for now do not pass through the sweep, so that its bound has to be the engine's as well.
void FolderSource::limit_depth(bool seeks) {
  if (!stopping_.load()) thread_->set_rotational(seeks);
}

std::optional<std::uint64_t> FolderSource::disk_offset_of(const SourceRead& read) const {
  const io::UniqueFd file(io::open_beneath(root()->fd(), read.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const auto begin = file.valid() ? io::physical_offset(file.get()) : std::nullopt;
  return begin ? std::optional(*begin + read.range.offset) : std::nullopt;  // the chunks of a file mostly adjoin
}

void FolderSource::read(SourceRead& read) {
  read.folder.source = this;
  read.folder.attempt = 0;
  const std::chrono::nanoseconds wait = time_to_settle(read);
  if (wait > std::chrono::nanoseconds(0)) return begin_later(read, wait);
  begin(read);
}

// The caller waits if it may, but not for seconds. Else the timer's thread, which must not wait for storage, hands the
// read over.
void FolderSource::begin_later(SourceRead& read, std::chrono::nanoseconds wait) {
  if (read.here && wait <= kTickMax) {
    std::this_thread::sleep_for(wait);
    return begin(read);
  }
  read.here = false;
  timers_.after(wait, [this, &read] {
    if (!stopping_.load()) return begin(read);
    read.on_done(read, io::make_error(ErrorCode::kCancelled, fmt::format("read {}", read.path)));
  });
}

void FolderSource::begin(SourceRead& read) {
  if (read.ahead && sweep_) return sweep_->add(read);
  submit(read);
}

void FolderSource::submit(SourceRead& read) {
  read.folder.root = root();
  if (read.keep != kNoEntry) read.folder.file = kept_.find(read.keep, read.identity, read.folder.root.get());
  if (!read.folder.file) return open_and_read(read);
  io::Operation operation =
      io::Operation::read(read.folder.file->fd.get(), read.range.offset, read.range.length, std::move(read.buffer));
  operation.cache_mode = read.folder.file->cache_mode;
  issue(read, std::move(operation));
}

void FolderSource::open_and_read(SourceRead& read) {
  io::Operation operation = io::Operation::read_path(read.folder.root->fd(), read.path, read.range.offset,
                                                     read.range.length, std::move(read.buffer));
  operation.cache_mode = read.folder.root->file_system().cache_mode;
  operation.keep_open = read.keep != kNoEntry;
  issue(read, std::move(operation));
}

void FolderSource::issue(SourceRead& read, io::Operation operation) {
  read.folder.operation = std::move(operation);
  read.folder.operation.opens_wait = read.folder.root->file_system().opens_wait;
  read.folder.operation.expected = &read.identity;
  read.folder.operation.wanted = read.ahead ? read.wanted : nullptr;
  read.folder.operation.context = &read;
  read.folder.operation.on_complete = [](io::Operation& done, Result<std::uint64_t> bytes) {
    SourceRead& self = *static_cast<SourceRead*>(done.context);
    self.folder.source->finish(self, std::move(bytes));
  };
  reads_here(read) ? io::run_here(read.folder.operation) : thread_->submit(read.folder.operation);
}

// A file that was kept may be another one at its path by now, or its server may not know it any more. What the path
// leads to decides.
bool FolderSource::open_anew(SourceRead& read, const Result<std::uint64_t>& bytes) {
  const std::shared_ptr<const KeptFile> file = std::move(read.folder.file);
  const bool is_good = bytes && *bytes == read.range.length;
  if (!file || is_good || stopping_.load()) return false;
  kept_.let_go(read.keep);
  open_and_read(read);
  return true;
}

void FolderSource::keep_open(SourceRead& read) {
  io::UniqueFd fd(std::exchange(read.folder.operation.kept_fd, -1));
  if (!fd.valid() || stopping_.load()) return;
  kept_.keep(read.keep, {std::move(fd), read.folder.operation.opened_for, read.identity, read.folder.root});
}

// A local disk that does not seek delivers a whole file before two threads have woken each other. A read that failed
// here is tried again by the engine: the caller waits only once.
bool FolderSource::reads_here(const SourceRead& read) const {
  return read.here && read.folder.attempt == 0 && !engine_only_ && !(sweep_ && sweep_->sorts()) &&
         !read.folder.root->file_system().opens_wait;
}

void FolderSource::finish(SourceRead& read, Result<std::uint64_t> bytes) {
  read.data = read.folder.operation.data();
  read.buffer = std::move(read.folder.operation.buffer);
  keep_open(read);
  if (open_anew(read, bytes)) return;
  read.folder.root.reset();
  if (!bytes && retry_later(read, bytes.error())) return;
  if (read.ahead && sweep_) sweep_->on_done();
  const bool stale = bytes ? *bytes < read.range.length : is_other_version(bytes.error());
  if (stale) return read.on_done(read, tl::unexpected<Error>(counts_.note_stale(read.path)));
  if (!bytes) {
    counts_.note_failure(bytes.error());
    return read.on_done(read, io::forward_error(std::move(bytes)));
  }
  counts_.note_success(read.range.length);
  read.on_done(read, {});
}

void FolderSource::join() {
  if (sweep_) sweep_->close();  // what waits there is cancelled with the rest
  thread_->stop();
  slow_.stop();  // what waits for a look, too
}

void FolderSource::settle() {
  std::promise<void> reached;
  post([&reached] { reached.set_value(); });
  reached.get_future().wait();
}

bool FolderSource::retry_later(SourceRead& read, const Error& error) {
  if (stopping_.load() || read.folder.attempt >= kRetryDelays.size()) return false;
  if (!may_pass(error) && !may_be_unmounted(error)) return false;
  timers_.after(kRetryDelays[read.folder.attempt++], [this, &read] { try_again(read); });
  return true;
}

void FolderSource::try_again(SourceRead& read) {
  if (stopping_.load() || !is_look_due()) return submit(read);
  {
    MutexLock lock(mutex_);
    waiting_.push_back(&read);
    if (waiting_.size() > 1) return;
  }
  look_for_remount(read);
}

// The folder that a mount lay on has no files, and a file that was removed is not found either. Telling these apart
// costs a look, which is spent once a second at most.
bool FolderSource::may_be_unmounted(const Error& error) const {
  return error.code == ErrorCode::kNotFound && is_look_due();
}

bool FolderSource::is_look_due() const {
  MutexLock lock(mutex_);
  return !remount_path_.empty() && io::TimerThread::Clock::now() >= next_look_;
}

void FolderSource::look_for_remount(const SourceRead& read) {
  struct Look {
    const std::shared_ptr<SourceRoot> root;
    const std::filesystem::path remount_path;
    const std::string path;  // of a file that has to be there
    const Identity identity;
    std::shared_ptr<SourceRoot> found = {};
  };
  const auto look = std::make_shared<Look>(Look{root(), remount_path_, read.path, read.identity});
  slow_.run(
      [look] {
        std::shared_ptr<SourceRoot> found = look->root->find_remount(look->remount_path);
        if (found != nullptr && found->has_file(look->path.c_str(), look->identity)) look->found = std::move(found);
      },
      [this, look] { end_look(look->found); });
}

void FolderSource::end_look(const std::shared_ptr<SourceRoot>& found) {
  std::vector<SourceRead*> waiting;
  {
    MutexLock lock(mutex_);
    next_look_ = io::TimerThread::Clock::now() + kLookInterval;
    if (found != nullptr) root_ = found;
    waiting.swap(waiting_);
  }
  if (found != nullptr) io::log_info("source {}: was mounted anew and is read from there", counts_.name());
  for (SourceRead* const read : waiting) submit(*read);
}

TierStats FolderSource::stats() const {
  TierStats stats = counts_.stats();
  if (sweep_) {
    stats.placement = sweep_->sorts() ? "hard disk: reads ahead are sorted by where files lie"
                                      : "says it is a hard disk, but is not as slow: reads are not sorted";
  }
  return stats;
}

}  // namespace headrace::cache
