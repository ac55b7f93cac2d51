// SPDX-License-Identifier: Apache-2.0
//
// One ring, one thread. Every operation in flight owns a slot: an index that names it in completions and, for files
// opened by path, its place in the ring's table of direct descriptors.
//
//   kReadPath   openat2 (into the slot) -> read -> close, linked: one system call, no descriptor, two completions.
//               The read is HARD-linked: a read past the end of the file is short, which would break a soft link, skip
//               the close and leave the slot occupied. The open reports only failure (CQE_SKIP_SUCCESS), and its
//               failure silences the rest of the chain.
//   elsewhere   one entry. On kernels that cannot link an open (before 5.17) a path takes two rounds: open, then read.
//
// The slot is chosen here and not by the kernel (IORING_FILE_INDEX_ALLOC), because later links must name it. O_CLOEXEC
// is not asked for: it is EINVAL with a direct descriptor, which no other process can inherit anyway.
//
// Where an open asks a server (network and FUSE file systems), it is sent to the kernel's workers at once
// (Operation::opens_wait): the kernel tries an open inline as soon as the path is in the dentry cache, and the file
// system's own part of it then blocks the thread that submits, one open after the other.
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
#include <sys/eventfd.h>
#include <unistd.h>

#include "headrace/io/internal/depth_controller.h"
#include "headrace/io/internal/opens_now.h"
#include "headrace/io/internal/operation_queue.h"
#include "headrace/io/internal/ring.h"
#include "headrace/io/internal/transfer.h"
#include "headrace/io/log.h"
#include "headrace/io/open_beneath.h"
#include "headrace/io/unique_fd.h"

namespace headrace::io {
namespace {

using internal::DepthController;
using internal::OpensNow;
using internal::OperationQueue;
using internal::Ring;
using Clock = std::chrono::steady_clock;
using Kind = Operation::Kind;
using Place = Operation::Internal::Place;

// With the registered files below, the file table stays under the usual limit of 1024 open files, which bounds it.
constexpr unsigned kDepthMax = 512;
constexpr unsigned kEntriesPerOperation = 3;
// Long-lived files: segments of disk tiers, packs. More than these simply use their descriptors.
constexpr unsigned kRegisteredFilesMax = 64;

// What a completion belongs to: the step, the slot, and which use of the slot, so that a late one is recognised.
enum class Step : std::uint8_t { kOpen, kTransfer, kClose, kCancel, kWake };

struct Tag {
  std::uint32_t use;
  std::uint32_t slot;
  Step step;

  [[nodiscard]] std::uint64_t packed() const {
    return std::uint64_t{use} << 32 | std::uint64_t{slot} << 8 | static_cast<std::uint64_t>(step);
  }
  [[nodiscard]] static Tag unpack(std::uint64_t data) {
    return {static_cast<std::uint32_t>(data >> 32), static_cast<std::uint32_t>(data >> 8) & 0xffffff,
            static_cast<Step>(data & 0xff)};
  }
};

struct Slot {
  Operation* operation = nullptr;
  std::uint32_t use = 0;
  unsigned completions_due = 0;
  std::int32_t result = 0;  // of the transfer, kept until the close has completed
};

class UringEngine final : public Engine {
 public:
  UringEngine(std::unique_ptr<Ring> ring, UniqueFd wake_fd, const EngineOptions& options, const UringMask& mask);
  ~UringEngine() override;

  void submit(Operation& operation) override;
  void wait(Clock::time_point deadline) override;
  void wake() override;
  [[nodiscard]] std::size_t in_flight() const override { return in_flight_; }
  [[nodiscard]] EngineInfo info() const override;
  void register_file(int fd) override;
  void unregister_file(int fd) override;
  void set_rotational(bool rotational) override { depth_.set_rotational(rotational); }

 private:
  void start_queued();
  void issue(Operation& operation);
  [[nodiscard]] bool open_now(Operation& operation);
  void issue_chain(Operation& operation);
  void issue_open(Operation& operation);
  void issue_one(Operation& operation);
  void prepare_transfer(Operation& operation, io_uring_sqe& sqe);
  [[nodiscard]] open_how& how_for(const Operation& operation);
  void tag(io_uring_sqe& sqe, const Operation& operation, Step step);

  void on_completion(std::uint64_t user_data, std::int32_t result);
  void on_open(Operation& operation, std::int32_t result);
  void settle(Operation& operation, std::int64_t result);
  void close_opened(Operation& operation);
  void release_slot(Operation& operation);
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
  OperationQueue queued_;
  OperationQueue finished_;
  std::size_t in_flight_ = 0;
  unsigned started_ = 0;
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
      slots_(depth_.depth_max()),
      depth_shown_(depth_.depth()) {
  how_buffered_.flags = O_RDONLY | O_NOCTTY;
  how_buffered_.resolve = kResolveBeneath;
  how_direct_ = how_buffered_;
  how_direct_.flags |= O_DIRECT;
  for (unsigned slot = depth_.depth_max(); slot-- > 0;) free_slots_.push_back(slot);
  if (ring_->has_file_table()) {
    for (unsigned i = kRegisteredFilesMax; i-- > 0;) free_file_slots_.push_back(depth_.depth_max() + i);
  }
  arm_wake();
}

UringEngine::~UringEngine() {
  closing_ = true;
  while (!queued_.empty()) end_queued(queued_.pop_front());
  for (const Slot& slot : slots_) {
    if (slot.operation != nullptr) stop_started(*slot.operation);
  }
  while (in_flight_ > 0) wait(Clock::time_point::max());
  wake();  // the kernel must be done with wake_count_ before it goes
  while (wake_armed_) {
    ring_->enter(Clock::time_point::max());
    ring_->reap([this](std::uint64_t data, std::int32_t result) { on_completion(data, result); });
  }
}

void UringEngine::submit(Operation& operation) {
  internal::begin(operation);
  ++in_flight_;
  if (closing_) return end_queued(operation);
  operation.internal.place = Place::kQueued;
  queued_.push_back(operation);
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
  for (const Step step : {Step::kOpen, Step::kTransfer}) {  // whichever runs; never the close
    ring_->reserve(1);
    io_uring_sqe& sqe = ring_->next_sqe();
    io_uring_prep_cancel64(&sqe, Tag{slots_[slot].use, slot, step}.packed(), 0);
    io_uring_sqe_set_data64(&sqe, Tag{slots_[slot].use, slot, Step::kCancel}.packed());
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
  io_uring_sqe_set_data64(&sqe, Tag{0, 0, Step::kWake}.packed());
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
  while (!queued_.empty() && started_ < depth_.depth()) {
    Operation& operation = queued_.pop_front();
    operation.internal.slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[operation.internal.slot].operation = &operation;
    operation.internal.place = Place::kStarted;
    ++started_;
    issue(operation);
  }
}

void UringEngine::issue(Operation& operation) {
  if (operation.kind != Kind::kReadPath || operation.internal.opened_fd >= 0) return issue_one(operation);
  if (!operation.opens_wait && opens_now_.allowed(started_) && open_now(operation)) return issue_one(operation);
  ring_->chains() ? issue_chain(operation) : issue_open(operation);
}

// False: whatever is wrong is found again, and told, on the long way.
bool UringEngine::open_now(Operation& operation) {
  const auto begin = Clock::now();
  const int flags = internal::open_flags(operation);
  const int fd = open_beneath(operation.fd, operation.path, flags | O_CLOEXEC | O_NONBLOCK);
  opens_now_.on_opened(Clock::now() - begin);
  if (fd < 0) return false;
  ::fcntl(fd, F_SETFL, flags);  // it was there for FIFOs; a read with it would fail rather than wait
  operation.internal.opened_fd = fd;
  return true;
}

void UringEngine::issue_chain(Operation& operation) {
  ring_->reserve(kEntriesPerOperation);
  const std::uint32_t slot = operation.internal.slot;
  io_uring_sqe& open = ring_->next_sqe();
  io_uring_prep_openat2_direct(&open, operation.fd, operation.path, &how_for(operation), slot);
  open.flags |= IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
  if (operation.opens_wait) open.flags |= IOSQE_ASYNC;
  tag(open, operation, Step::kOpen);

  io_uring_sqe& read = ring_->next_sqe();
  prepare_transfer(operation, read);
  read.flags |= IOSQE_IO_HARDLINK;
  tag(read, operation, Step::kTransfer);

  io_uring_sqe& close = ring_->next_sqe();
  io_uring_prep_close_direct(&close, slot);
  tag(close, operation, Step::kClose);
  slots_[slot].completions_due = 2;
}

void UringEngine::issue_open(Operation& operation) {
  ring_->reserve(1);
  io_uring_sqe& sqe = ring_->next_sqe();
  io_uring_prep_openat2(&sqe, operation.fd, operation.path, &how_for(operation));
  if (operation.opens_wait) sqe.flags |= IOSQE_ASYNC;
  tag(sqe, operation, Step::kOpen);
  slots_[operation.internal.slot].completions_due = 1;
}

void UringEngine::issue_one(Operation& operation) {
  ring_->reserve(1);
  io_uring_sqe& sqe = ring_->next_sqe();
  prepare_transfer(operation, sqe);
  if (operation.kind != Kind::kReadPath) {
    if (const auto file = registered_files_.find(operation.fd); file != registered_files_.end()) {
      sqe.fd = static_cast<std::int32_t>(file->second);
      sqe.flags |= IOSQE_FIXED_FILE;
    }
  }
  tag(sqe, operation, Step::kTransfer);
  slots_[operation.internal.slot].completions_due = 1;
}

// The file is the slot's direct descriptor in a chain, the opened or given descriptor otherwise.
void UringEngine::prepare_transfer(Operation& operation, io_uring_sqe& sqe) {
  const internal::Transfer transfer = internal::next_transfer(operation, transfer_bytes_max_);
  const bool chained = operation.kind == Kind::kReadPath && operation.internal.opened_fd < 0;
  int fd = operation.kind == Kind::kReadPath ? operation.internal.opened_fd : operation.fd;
  if (chained) fd = static_cast<int>(operation.internal.slot);
  const int code = operation.kind == Kind::kWrite ? IORING_OP_WRITE : IORING_OP_READ;
  io_uring_prep_rw(code, &sqe, fd, transfer.data, transfer.length_bytes, transfer.offset_bytes);
  if (chained) sqe.flags |= IOSQE_FIXED_FILE;
}

open_how& UringEngine::how_for(const Operation& operation) {
  return operation.internal.cache_mode == CacheMode::kDirect ? how_direct_ : how_buffered_;
}

void UringEngine::tag(io_uring_sqe& sqe, const Operation& operation, Step step) {
  const std::uint32_t slot = operation.internal.slot;
  io_uring_sqe_set_data64(&sqe, Tag{slots_[slot].use, slot, step}.packed());
}

void UringEngine::on_completion(std::uint64_t user_data, std::int32_t result) {
  const Tag tag = Tag::unpack(user_data);
  if (tag.step == Step::kCancel) return;
  if (tag.step == Step::kWake) {
    wake_armed_ = false;
    woken_ = true;
    if (!closing_) arm_wake();
    return;
  }
  HEADRACE_ASSERT(tag.slot < slots_.size());
  Slot& slot = slots_[tag.slot];
  if (slot.operation == nullptr || slot.use != tag.use) return;  // the rest of a chain whose open failed
  if (tag.step == Step::kOpen) return on_open(*slot.operation, result);
  if (tag.step == Step::kTransfer) slot.result = result;
  if (--slot.completions_due == 0) settle(*slot.operation, slot.result);
}

void UringEngine::on_open(Operation& operation, std::int32_t result) {
  if (result < 0) return settle(operation, result);
  operation.internal.opened_fd = result;
  if (operation.internal.stopped) return settle(operation, -ECANCELED);
  issue_one(operation);
}

void UringEngine::settle(Operation& operation, std::int64_t result) {
  const CacheMode cache_mode = operation.internal.cache_mode;
  const bool finished = internal::finished_after(operation, result);
  if (finished || cache_mode != operation.internal.cache_mode) close_opened(operation);
  ++slots_[operation.internal.slot].use;
  if (!finished) return issue(operation);
  release_slot(operation);
  push_finished(operation);
}

void UringEngine::push_finished(Operation& operation) {
  operation.internal.place = Place::kFinished;
  finished_.push_back(operation);
}

void UringEngine::close_opened(Operation& operation) {
  if (operation.internal.opened_fd < 0) return;
  ::close(operation.internal.opened_fd);  // read-only: nothing to write back, nothing to wait for
  operation.internal.opened_fd = -1;
}

void UringEngine::release_slot(Operation& operation) {
  slots_[operation.internal.slot].operation = nullptr;
  free_slots_.push_back(operation.internal.slot);
  --started_;
}

}  // namespace

Result<std::unique_ptr<Engine>> open_uring_engine(const EngineOptions& options, const UringMask& mask) {
  const internal::DepthOptions depth = internal::depth_options(options, kDepthMax);
  HEADRACE_TRY(ring, Ring::open({.entries = depth.max * kEntriesPerOperation,
                                 .file_slots = depth.max + kRegisteredFilesMax,
                                 .worker_count_max = depth.max,
                                 .mask = mask}));
  UniqueFd wake_fd(::eventfd(0, EFD_CLOEXEC));
  if (!wake_fd.valid()) return system_error(errno, "eventfd");
  for (const std::string& limit : ring->limits()) log_info("io_uring: {}", limit);
  return std::make_unique<UringEngine>(std::move(ring), std::move(wake_fd), options, mask);
}

}  // namespace headrace::io
