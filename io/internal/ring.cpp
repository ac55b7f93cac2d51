// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/internal/ring.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

namespace headrace::io::internal {
namespace {

using Clock = std::chrono::steady_clock;

struct SetupFlag {
  unsigned bit;
  const char* missing;  // what to tell people when the kernel does not know it
};

// Each saves interrupts or locks; none is needed. A kernel that knows not all of them gets them without the newest,
// then without the two newest, and so on.
constexpr SetupFlag kSetupFlags[] = {
    {IORING_SETUP_DEFER_TASKRUN, "no DEFER_TASKRUN (Linux 6.1): completions interrupt the thread"},
    {IORING_SETUP_SINGLE_ISSUER, "no SINGLE_ISSUER (Linux 6.0)"},
    {IORING_SETUP_COOP_TASKRUN, "no COOP_TASKRUN (Linux 5.19)"},
    {IORING_SETUP_SUBMIT_ALL, "no SUBMIT_ALL (Linux 5.18)"},
};

constexpr std::uint8_t kOperationsNeeded[] = {IORING_OP_OPENAT2, IORING_OP_READ,  IORING_OP_WRITE,
                                              IORING_OP_STATX,   IORING_OP_CLOSE, IORING_OP_ASYNC_CANCEL};

// The kernel lacks memory for a moment: tries 1 ms apart outlast that and do not spin.
constexpr auto kSubmitRetryPause = std::chrono::milliseconds(1);

__kernel_timespec timespec_from(Clock::duration duration) {
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  return {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
}

int queue_init(io_uring& ring, unsigned entries, io_uring_params& params, const UringMask& mask) {
  if ((params.flags & mask.refused_setup_flags) != 0) return -EINVAL;
  return io_uring_queue_init_params(entries, &ring, &params);
}

}  // namespace

Result<std::unique_ptr<Ring>> Ring::open(const RingOptions& options) {
  std::unique_ptr<Ring> ring(new Ring);
  HEADRACE_TRY_DO(ring->set_up(options));
  HEADRACE_TRY_DO(ring->check_operations());
  ring->set_up_file_table(options);
  unsigned workers[2] = {options.worker_count_max, options.worker_count_max};
  if (io_uring_register_iowq_max_workers(&ring->ring_, workers) < 0) {
    ring->limits_.emplace_back("kernel worker threads are not capped (Linux 5.15)");
  }
  io_uring_register_ring_fd(&ring->ring_);  // saves a descriptor look-up per call; absent before Linux 5.18
  return ring;
}

Ring::~Ring() {
  // The kernel takes a closed ring apart some milliseconds later, and till then the files of its table are open: nobody
  // could unmount their file system. Asked for it, it lets go of them at once.
  if (has_file_table_) io_uring_unregister_files(&ring_);
  if (open_) io_uring_queue_exit(&ring_);
}

Status Ring::set_up(const RingOptions& options) {
  io_uring_params params = {};
  for (const SetupFlag& flag : kSetupFlags) params.flags |= flag.bit;
  int error = queue_init(ring_, options.entries, params, options.mask);
  for (const SetupFlag& flag : kSetupFlags) {
    if (error != -EINVAL) break;
    limits_.emplace_back(flag.missing);
    const unsigned flags = params.flags & ~flag.bit;
    params = {};
    params.flags = flags;
    error = queue_init(ring_, options.entries, params, options.mask);
  }
  if (error < 0) return system_error(-error, "io_uring is not available");
  open_ = true;

  if ((params.features & IORING_FEAT_NODROP) == 0 || (params.features & IORING_FEAT_EXT_ARG) == 0) {
    return make_error(ErrorCode::kUnsupported, "io_uring is too old (Linux 5.11 is needed)");
  }
  return {};
}

Status Ring::check_operations() {
  io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
  if (probe == nullptr) return make_error(ErrorCode::kUnsupported, "io_uring: its operations cannot be listed");
  const bool complete = std::ranges::all_of(
      kOperationsNeeded, [probe](std::uint8_t code) { return io_uring_opcode_supported(probe, code) != 0; });
  io_uring_free_probe(probe);
  if (!complete) return make_error(ErrorCode::kUnsupported, "io_uring lacks an operation (Linux 5.6 is needed)");
  return {};
}

void Ring::set_up_file_table(const RingOptions& options) {
  const std::vector<int> empty(options.file_slots, -1);
  const int error = io_uring_register_files(&ring_, empty.data(), options.file_slots);
  has_file_table_ = error == 0;
  if (has_file_table_) return;
  limits_.emplace_back(system_error(-error, "no table of registered files").value().message());
}

void Ring::reserve(unsigned count) {
  if (io_uring_sq_space_left(&ring_) < count) submit();
}

io_uring_sqe& Ring::next_sqe() {
  io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
  HEADRACE_ASSERT(sqe != nullptr);  // reserve() made room
  return *sqe;
}

void Ring::submit() {
  while (io_uring_sq_ready(&ring_) > 0) {
    const int submitted = io_uring_submit(&ring_);
    if (submitted >= 0 || submitted == -EINTR) continue;
    HEADRACE_ASSERT(submitted == -EAGAIN || submitted == -EBUSY || submitted == -ENOMEM);
    std::this_thread::sleep_for(kSubmitRetryPause);
  }
}

bool Ring::enter(Clock::time_point deadline) {
  int result = 0;
  io_uring_cqe* ignored = nullptr;
  if (deadline == Clock::time_point::max()) {
    result = io_uring_submit_and_wait(&ring_, 1);
  } else if (const auto now = Clock::now(); deadline > now) {
    __kernel_timespec timeout = timespec_from(deadline - now);
    result = io_uring_submit_and_wait_timeout(&ring_, &ignored, 1, &timeout, nullptr);
  } else {
    result = io_uring_submit_and_get_events(&ring_);
    if (result >= 0) return false;
  }
  if (result == -ETIME) return false;
  if (result >= 0 || result == -EINTR) return true;
  HEADRACE_ASSERT(result == -EAGAIN || result == -EBUSY || result == -ENOMEM);
  std::this_thread::sleep_for(kSubmitRetryPause);
  return true;
}

Status Ring::set_file(unsigned slot, int fd) {
  submit();  // what is queued may still name the slot's former file
  const int updated = io_uring_register_files_update(&ring_, slot, &fd, 1);
  if (updated < 0) return system_error(-updated, "register a file");
  return {};
}

}  // namespace headrace::io::internal
