// SPDX-License-Identifier: Apache-2.0
//
// One ring, one thread. Every operation in flight owns a slot, which names it in completions. It takes one step at a
// time, each with one completion:
//
//   kReadPath   open -> compare -> read -> compare -> close. A path in the dentry cache is opened on this thread, which
//               waits for nothing; another one by the kernel's workers. More reads follow where the kernel moves less
//               than was asked. To compare costs one fstat(2): the file is open, so its inode is in memory.
//   elsewhere   the same without open and close: compare -> read -> compare, or one write.
//
// Why the open is not linked to the read: an open that links to later entries puts the file into the ring's own table,
// and nothing tells the attributes of a file in that table. To look at its path instead would be to look at what lies
// there by then.
//
// Where an open asks a server (network and FUSE file systems, Operation::opens_wait), nothing may hold this thread. The
// open is sent to the kernel's workers at once: the kernel would try it inline as soon as the path is in the dentry
// cache, and the file system's own part of it then blocks. The second comparison asks the server, as an entry of the
// ring. So does the close, which may send a message as well; the operation does not wait for it.
#include "headrace/io/uring_engine.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/openat2.h>
#if defined __SANITIZE_THREAD__ && defined __clang__  // GCC has no such header
#include <sanitizer/linux_syscall_hooks.h>
#endif
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "headrace/io/internal/depth_controller.h"
#include "headrace/io/internal/opens_now.h"
#include "headrace/io/internal/operation_queue.h"
#include "headrace/io/internal/ring.h"
#include "headrace/io/internal/transfer.h"
#include "headrace/io/internal/waiting_operations.h"
#include "headrace/io/log.h"
#include "headrace/io/open_beneath.h"
#include "headrace/io/unique_fd.h"

namespace headrace::io {
namespace {

using internal::DepthController;
using internal::Look;
using internal::OpensNow;
using internal::OperationQueue;
using internal::Ring;
using internal::WaitingOperations;
using Clock = std::chrono::steady_clock;
using Kind = Operation::Kind;
using Place = Operation::Internal::Place;

// Each holds a descriptor while it reads a path: with the places beyond it, five eighths of the usual limit of 1024.
constexpr unsigned kDepthMax = 512;
// Long-lived files: segments of disk tiers, packs. More than these simply use their descriptors.
constexpr unsigned kRegisteredFilesMax = 64;

// What a completion belongs to.
enum class Step : std::uint8_t { kOpen, kTransfer, kCompare, kClose, kCancel, kWake };

struct Tag {
  std::uint32_t slot;
  Step step;

  [[nodiscard]] std::uint64_t packed() const { return std::uint64_t{slot} << 8 | static_cast<std::uint64_t>(step); }
  [[nodiscard]] static Tag unpack(std::uint64_t data) {
    return {static_cast<std::uint32_t>(data >> 8), static_cast<Step>(data & 0xff)};
  }
};

constexpr std::uint32_t kNoSlot = UINT32_MAX;

struct Slot {
  Operation* operation = nullptr;
  struct statx status = {};               // written by the kernel in the step kCompare
  std::uint32_t compares_next = kNoSlot;  // another one whose file is compared by the same look
};

int descriptor_of(const Operation& operation) {
  return operation.kind == Kind::kReadPath ? operation.internal.opened_fd : operation.fd;
}

// A file is opened with O_NONBLOCK, so that a FIFO in its place holds up nobody. On some devices io_uring then refuses
// a read that would wait (those whose driver lacks REQ_NOWAIT).
void let_reads_wait(int fd) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return;
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

class UringEngine final : public Engine {
 public:
  UringEngine(std::unique_ptr<Ring> ring, UniqueFd wake_fd, const EngineOptions& options, const UringMask& mask);
  ~UringEngine() override;

  void submit(Operation& operation) override;
  void wait(Clock::time_point deadline) override;
  void wake() override;
  [[nodiscard]] std::size_t in_flight() const override { return in_flight_; }
  [[nodiscard]] std::size_t waiting() const override { return queued_.size(); }
  void hurry() override { queued_.hurry(); }
  [[nodiscard]] EngineInfo info() const override;
  void register_file(int fd) override;
  void unregister_file(int fd) override;
  void set_rotational(bool rotational) override { depth_.set_rotational(rotational); }

 private:
  void start_queued();
  void open(Operation& operation);
  [[nodiscard]] int open_here(const Operation& operation);
  void begin_transfer(Operation& operation);
  void issue_transfer(Operation& operation);
  void compare_at_end(Operation& operation);
  void look_at_file(std::uint32_t slot);
  void look_at_files();
  void end_started(Operation& operation);
  void close_opened(Operation& operation);

  void on_completion(std::uint64_t user_data, std::int32_t result);
  void on_open(Operation& operation, std::int32_t result);
  void on_transfer(Operation& operation, std::int32_t result);
  void on_compared(Slot& slot, std::int32_t result);
  void push_finished(Operation& operation);

  void end_queued(Operation& operation);
  void stop_started(Operation& operation);
  void run_finished(bool limited);
  void arm_wake();

  // Constant after construction.
  const std::unique_ptr<Ring> ring_;
  const UniqueFd wake_fd_;
  const std::uint64_t transfer_bytes_max_;
  open_how how_buffered_ = {};  // liburing 2.3 takes it without const; the kernel copies it at submission
  open_how how_direct_ = {};

  // Driving thread only.
  DepthController depth_;
  OpensNow opens_now_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  WaitingOperations queued_;
  OperationQueue finished_;
  std::size_t in_flight_ = 0;
  unsigned started_ = 0;
  std::unordered_map<int, std::uint32_t> to_compare_;  // by file: the last slot of those whose reads have just ended
  unsigned closes_ = 0;                                // of files of finished operations, not completed yet
  bool woken_ = false;
  bool wake_armed_ = false;
  bool closing_ = false;
  std::uint64_t wake_count_ = 0;  // written by the kernel
  std::unordered_map<int, unsigned> registered_files_;
  std::vector<unsigned> free_file_slots_;

  std::atomic<unsigned> depth_shown_;
  std::atomic<std::uint64_t> buffered_fallbacks_{0};
};

UringEngine::UringEngine(std::unique_ptr<Ring> ring, UniqueFd wake_fd, const EngineOptions& options,
                         const UringMask& mask)
    : ring_(std::move(ring)),
      wake_fd_(std::move(wake_fd)),
      transfer_bytes_max_(mask.transfer_bytes_max),
      depth_(internal::depth_options(options, kDepthMax)),
      slots_(WaitingOperations::places(depth_.depth_max())),
      depth_shown_(depth_.depth()) {
  how_buffered_.flags = static_cast<std::uint64_t>(internal::open_flags(CacheMode::kBuffered));
  how_direct_.flags = static_cast<std::uint64_t>(internal::open_flags(CacheMode::kDirect));
  how_buffered_.resolve = how_direct_.resolve = kResolveBeneath;
  for (auto slot = static_cast<std::uint32_t>(slots_.size()); slot-- > 0;) free_slots_.push_back(slot);
  if (ring_->has_file_table()) {
    for (unsigned i = kRegisteredFilesMax; i-- > 0;) free_file_slots_.push_back(i);
  }
  arm_wake();
}

UringEngine::~UringEngine() {
  closing_ = true;
  while (!queued_.empty()) end_queued(queued_.pop());
  for (const Slot& slot : slots_) {
    if (slot.operation != nullptr) stop_started(*slot.operation);
  }
  while (in_flight_ > 0) wait(Clock::time_point::max());
  wake();  // the kernel must be done with wake_count_ before it goes
  while (wake_armed_ || closes_ > 0) {
    ring_->enter(Clock::time_point::max());
    ring_->reap([this](std::uint64_t data, std::int32_t result) { on_completion(data, result); });
  }
}

void UringEngine::submit(Operation& operation) {
  internal::begin(operation);
  ++in_flight_;
  if (closing_) return end_queued(operation);
  operation.internal.place = Place::kQueued;
  queued_.push(operation);
}

// The engine goes down: what was not started ends here.
void UringEngine::end_queued(Operation& operation) {
  internal::finish(operation, -ECANCELED);
  push_finished(operation);
}

// The engine goes down: the kernel is asked to end what it works on. Until its completions are in, the operation and
// its buffer are the kernel's.
void UringEngine::stop_started(Operation& operation) {
  operation.internal.stopped = true;
  const std::uint32_t slot = operation.internal.slot;
  for (const Step step : {Step::kOpen, Step::kTransfer, Step::kCompare}) {  // whichever runs; never the close
    ring_->reserve(1);
    io_uring_sqe& sqe = ring_->next_sqe();
    io_uring_prep_cancel64(&sqe, Tag{slot, step}.packed(), 0);
    io_uring_sqe_set_data64(&sqe, Tag{slot, Step::kCancel}.packed());
  }
}

void UringEngine::wait(Clock::time_point deadline) {
  bool in_time = true;
  while (in_time) {
    start_queued();
    const bool ready = woken_ || !finished_.empty();
    in_time = ring_->enter(ready ? Clock::time_point::min() : deadline);
    ring_->reap([this](std::uint64_t data, std::int32_t result) { on_completion(data, result); });
    if (woken_ || !finished_.empty()) break;
  }
  woken_ = false;
  const bool limited = !queued_.empty();
  // The device gets its next reads before anybody looks at what it has read: completions may hash or decode.
  start_queued();
  ring_->submit();
  run_finished(limited);
}

void UringEngine::run_finished(bool limited) {
  const auto now = Clock::now();
  OperationQueue finished = finished_.take();
  while (!finished.empty()) {
    Operation& operation = finished.pop_front();
    --in_flight_;
    internal::count_fallback(operation, buffered_fallbacks_);
    depth_.on_finished(operation.internal.progress_bytes, limited, now);
    internal::deliver(operation);
  }
  depth_shown_.store(depth_.depth(), std::memory_order_relaxed);
}

void UringEngine::wake() {
  const std::uint64_t one = 1;
  // Fails only when 2^64 - 2 wake-ups are pending.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof one);
}

void UringEngine::arm_wake() {
  ring_->reserve(1);
  io_uring_sqe& sqe = ring_->next_sqe();
  io_uring_prep_read(&sqe, wake_fd_.get(), &wake_count_, sizeof wake_count_, 0);
  io_uring_sqe_set_data64(&sqe, Tag{0, Step::kWake}.packed());
  wake_armed_ = true;
}

EngineInfo UringEngine::info() const {
  EngineInfo info;
  info.name = "io_uring";
  info.queue_depth = depth_shown_.load(std::memory_order_relaxed);
  info.queue_depth_max = depth_.depth_max();
  info.limits = ring_->limits();
  info.buffered_fallbacks = buffered_fallbacks_.load(std::memory_order_relaxed);
  return info;
}

void UringEngine::register_file(int fd) {
  if (free_file_slots_.empty() || registered_files_.contains(fd)) return;
  const unsigned slot = free_file_slots_.back();
  if (Status status = ring_->set_file(slot, fd); !status) {
    log_warning("{}; its descriptor is used instead", status.error().message());
    return;
  }
  free_file_slots_.pop_back();
  registered_files_.emplace(fd, slot);
}

void UringEngine::unregister_file(int fd) {
  const auto found = registered_files_.find(fd);
  if (found == registered_files_.end()) return;
  if (ring_->set_file(found->second, -1)) free_file_slots_.push_back(found->second);
  registered_files_.erase(found);
}

void UringEngine::start_queued() {
  while (queued_.may_start(started_, depth_.depth())) {
    Operation& operation = queued_.pop();
    operation.internal.slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[operation.internal.slot].operation = &operation;
    operation.internal.place = Place::kStarted;
    ++started_;
    operation.kind == Kind::kReadPath ? open(operation) : begin_transfer(operation);
  }
  look_at_files();
}

void UringEngine::open(Operation& operation) {
  const int fd = operation.opens_wait ? -EAGAIN : open_here(operation);
  if (fd >= 0) return on_open(operation, fd);
  // What is wrong, if it is not the cache that lacks the path, is found again on the long way.
  ring_->reserve(1);
  io_uring_sqe& sqe = ring_->next_sqe();
  const bool direct = operation.internal.cache_mode == CacheMode::kDirect;
  io_uring_prep_openat2(&sqe, operation.fd, operation.path, direct ? &how_direct_ : &how_buffered_);
  sqe.flags |= IOSQE_ASYNC;
  sqe.user_data = Tag{operation.internal.slot, Step::kOpen}.packed();
}

// A path in the dentry cache is opened without waiting. Another one too, where that is better than to leave it to the
// kernel's workers.
int UringEngine::open_here(const Operation& operation) {
  const int flags = internal::open_flags(operation.internal.cache_mode);
  if (!opens_now_.allowed(started_)) return open_beneath_if_cached(operation.fd, operation.path, flags);
  const auto begin = Clock::now();
  const int fd = open_beneath(operation.fd, operation.path, flags);
  opens_now_.on_opened(Clock::now() - begin);
  return fd;
}

void UringEngine::begin_transfer(Operation& operation) {
  const bool good = internal::is_expected(operation, descriptor_of(operation), Look::kBefore);
  if (!good) return end_started(operation);
  operation.length_bytes > 0 ? issue_transfer(operation) : compare_at_end(operation);
}

void UringEngine::issue_transfer(Operation& operation) {
  const internal::Transfer transfer = internal::next_transfer(operation, transfer_bytes_max_);
  const int code = operation.kind == Kind::kWrite ? IORING_OP_WRITE : IORING_OP_READ;
  ring_->reserve(1);
  io_uring_sqe& sqe = ring_->next_sqe();
  io_uring_prep_rw(code, &sqe, descriptor_of(operation), transfer.data, transfer.length_bytes, transfer.offset_bytes);
  if (operation.kind != Kind::kReadPath) {
    if (const auto file = registered_files_.find(operation.fd); file != registered_files_.end()) {
      sqe.fd = static_cast<std::int32_t>(file->second);
      sqe.flags |= IOSQE_FIXED_FILE;
    }
  }
  sqe.user_data = Tag{operation.internal.slot, Step::kTransfer}.packed();
}

void UringEngine::compare_at_end(Operation& operation) {
  const int fd = descriptor_of(operation);
  const bool ask_server = operation.expected != nullptr && operation.internal.outcome >= 0 && operation.opens_wait;
  if (!ask_server) {
    static_cast<void>(internal::is_expected(operation, fd, Look::kAfter));
    return end_started(operation);
  }
  const std::uint32_t slot = operation.internal.slot;
  if (operation.kind != Kind::kRead) return look_at_file(slot);
  const auto [last, is_first] = to_compare_.try_emplace(fd, slot);
  if (!is_first) slots_[slot].compares_next = std::exchange(last->second, slot);
}

// Reads of one open file that have ended by now share a look at it, which comes after all of them.
void UringEngine::look_at_files() {
  for (const auto& [ignored, slot] : to_compare_) look_at_file(slot);
  to_compare_.clear();
}

void UringEngine::look_at_file(std::uint32_t slot) {
  const int fd = descriptor_of(*slots_[slot].operation);
  ring_->reserve(1);
  io_uring_sqe& sqe = ring_->next_sqe();
  io_uring_prep_statx(&sqe, fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &slots_[slot].status);
  sqe.user_data = Tag{slot, Step::kCompare}.packed();
}

void UringEngine::on_completion(std::uint64_t user_data, std::int32_t result) {
  const Tag tag = Tag::unpack(user_data);
  if (tag.step == Step::kCancel) return;
  if (tag.step == Step::kClose) {
    --closes_;
    return;
  }
  if (tag.step == Step::kWake) {
    wake_armed_ = false;
    woken_ = true;
    if (!closing_) arm_wake();
    return;
  }
  HEADRACE_ASSERT(tag.slot < slots_.size() && slots_[tag.slot].operation != nullptr);
  Slot& slot = slots_[tag.slot];
  if (tag.step == Step::kOpen) return on_open(*slot.operation, result);
  if (tag.step == Step::kTransfer) return on_transfer(*slot.operation, result);
  on_compared(slot, result);
}

void UringEngine::on_open(Operation& operation, std::int32_t result) {
  if (result < 0) return internal::finished_after(operation, result) ? end_started(operation) : open(operation);
  operation.internal.opened_fd = result;
  internal::prepare_opened(operation, result);
  if (!operation.internal.stopped) return begin_transfer(operation);
  internal::finish(operation, -ECANCELED);
  end_started(operation);
}

void UringEngine::on_transfer(Operation& operation, std::int32_t result) {
  if (result == -EAGAIN && operation.kind == Kind::kReadPath) let_reads_wait(operation.internal.opened_fd);
  const CacheMode opened_for = operation.internal.cache_mode;
  if (internal::finished_after(operation, result)) return compare_at_end(operation);
  if (operation.internal.cache_mode == opened_for) return issue_transfer(operation);
  close_opened(operation);
  open(operation);
}

void UringEngine::on_compared(Slot& slot, std::int32_t result) {
  // First, while the status is there. Where the look failed, or was called off with its operation, each has its own.
  std::uint32_t next = std::exchange(slot.compares_next, kNoSlot);
  while (next != kNoSlot) {
    Slot& other = slots_[next];
    const std::uint32_t own = std::exchange(next, std::exchange(other.compares_next, kNoSlot));
    if (result < 0) {
      look_at_file(own);
      continue;
    }
    static_cast<void>(internal::is_expected(*other.operation, attributes_from(slot.status)));
    end_started(*other.operation);
  }
  Operation& operation = *slot.operation;
  if (result < 0) {
    internal::finish(operation, result);
  } else {
    static_cast<void>(internal::is_expected(operation, attributes_from(slot.status)));
  }
  end_started(operation);
}

void UringEngine::end_started(Operation& operation) {
  const int fd = operation.internal.opened_fd;
  if (fd >= 0 && internal::hand_over(operation, fd)) operation.internal.opened_fd = -1;
  close_opened(operation);
  slots_[operation.internal.slot].operation = nullptr;
  free_slots_.push_back(operation.internal.slot);
  --started_;
  push_finished(operation);
}

// On a local file system a file that was only read has nothing to write back and nothing to wait for.
void UringEngine::close_opened(Operation& operation) {
  const int fd = std::exchange(operation.internal.opened_fd, -1);
  if (fd < 0) return;
  if (!operation.opens_wait) {
    ::close(fd);
    return;
  }
#if defined __SANITIZE_THREAD__ && defined __clang__
  // It saw fstat() use the descriptor. The next file of this number would race with that, and LLVM 14 ends the process
  // in reporting it.
  __sanitizer_syscall_pre_close(fd);
#endif
  ring_->reserve(1);
  io_uring_sqe& sqe = ring_->next_sqe();
  io_uring_prep_close(&sqe, fd);
  sqe.user_data = Tag{0, Step::kClose}.packed();
  ++closes_;
}

void UringEngine::push_finished(Operation& operation) {
  operation.internal.place = Place::kFinished;
  finished_.push_back(operation);
}

}  // namespace

Result<std::unique_ptr<Engine>> open_uring_engine(const EngineOptions& options, const UringMask& mask) {
  const unsigned places = WaitingOperations::places(internal::depth_options(options, kDepthMax).max);
  HEADRACE_TRY(
      ring,
      Ring::open({.entries = places, .file_slots = kRegisteredFilesMax, .worker_count_max = places, .mask = mask}));
  UniqueFd wake_fd(::eventfd(0, EFD_CLOEXEC));
  if (!wake_fd.valid()) return system_error(errno, "eventfd");
  for (const std::string& limit : ring->limits()) log_info("io_uring: {}", limit);
  return std::make_unique<UringEngine>(std::move(ring), std::move(wake_fd), options, mask);
}

}  // namespace headrace::io
