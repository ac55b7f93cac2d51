// SPDX-License-Identifier: Apache-2.0
#define FUSE_USE_VERSION 312
#include "headrace/fuse/kernel/session.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "headrace/io/log.h"
#include "headrace/io/page_bytes.h"
#include "headrace/io/unique_fd.h"

namespace headrace::fuse {
using io::ErrorCode;

namespace {

// A request that comes in is at most this long: kMaxWriteBytes and a head; names and FORGET batches are shorter.
constexpr std::size_t kRequestBytesMax = std::size_t{16} << 10;
// The most that kernels with pages of 4 KiB grant, but where fs.fuse.max_pages_limit was raised.
constexpr std::size_t kReadBytesMax = 1 << 20;

constexpr std::array<std::string_view, kOpcodeCount> kOpcodeNames = [] {
  std::array<std::string_view, kOpcodeCount> names = {};
  names[0] = "OTHER";
  names[FUSE_LOOKUP] = "LOOKUP";
  names[FUSE_FORGET] = "FORGET";
  names[FUSE_GETATTR] = "GETATTR";
  names[FUSE_SETATTR] = "SETATTR";
  names[FUSE_READLINK] = "READLINK";
  names[FUSE_OPEN] = "OPEN";
  names[FUSE_READ] = "READ";
  names[FUSE_STATFS] = "STATFS";
  names[FUSE_RELEASE] = "RELEASE";
  names[FUSE_FSYNC] = "FSYNC";
  names[FUSE_GETXATTR] = "GETXATTR";
  names[FUSE_LISTXATTR] = "LISTXATTR";
  names[FUSE_FLUSH] = "FLUSH";
  names[FUSE_INIT] = "INIT";
  names[FUSE_OPENDIR] = "OPENDIR";
  names[FUSE_READDIR] = "READDIR";
  names[FUSE_RELEASEDIR] = "RELEASEDIR";
  names[FUSE_FSYNCDIR] = "FSYNCDIR";
  names[FUSE_GETLK] = "GETLK";
  names[FUSE_SETLK] = "SETLK";
  names[FUSE_SETLKW] = "SETLKW";
  names[FUSE_ACCESS] = "ACCESS";
  names[FUSE_INTERRUPT] = "INTERRUPT";
  names[FUSE_BMAP] = "BMAP";
  names[FUSE_DESTROY] = "DESTROY";
  names[FUSE_IOCTL] = "IOCTL";
  names[FUSE_POLL] = "POLL";
  names[FUSE_NOTIFY_REPLY] = "NOTIFY_REPLY";
  names[FUSE_BATCH_FORGET] = "BATCH_FORGET";
  names[FUSE_READDIRPLUS] = "READDIRPLUS";
  names[FUSE_LSEEK] = "LSEEK";
  names[FUSE_SYNCFS] = "SYNCFS";
  names[52] = "STATX";  // Linux 6.6
  return names;
}();

// The library asks for a way to read and never uses it: the loop reads by itself.
std::int64_t refuse_read(int, void*, std::size_t, void*) {
  return -ENOSYS;
}

// An epoll instance that reports what is to be done to one waiting thread only, and stop_fd to all of them. -1: see
// errno.
int make_wait_fd(std::span<const int> work_fds, int stop_fd) {
  const int wait_fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (wait_fd < 0) return -1;
  epoll_event stop = {.events = EPOLLIN, .data = {.fd = stop_fd}};
  bool all = ::epoll_ctl(wait_fd, EPOLL_CTL_ADD, stop_fd, &stop) == 0;
  for (const int fd : work_fds) {
    epoll_event work = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data = {.fd = fd}};
    all = all && ::epoll_ctl(wait_fd, EPOLL_CTL_ADD, fd, &work) == 0;
  }
  if (all) return wait_fd;
  ::close(wait_fd);
  return -1;
}

bool needs_answer(std::uint32_t opcode) {
  return opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET && opcode != FUSE_INTERRUPT &&
         opcode != FUSE_NOTIFY_REPLY;
}

}  // namespace

// What a thread reads requests into: first the slot, and behind it what no slot has room for.
struct Session::Reading {
  std::vector<std::byte> buffer = std::vector<std::byte>(kRequestBytesMax);
  RequestLog::Slot* slot = nullptr;  // empty; none, if all are taken
};

std::string_view opcode_name(std::size_t opcode) {
  return kOpcodeNames[opcode];
}

Result<std::shared_ptr<Session>> Session::open(Channel& channel, RequestLog::Role role,
                                               const fuse_lowlevel_ops& operations, std::shared_ptr<void> handler) {
  std::shared_ptr<Session> session(new Session(std::move(handler)));
  HEADRACE_TRY_DO(session->attach(channel, operations));
  session->log_->begin(role);
  HEADRACE_TRY_DO(session->replay_init(channel));
  return session;
}

Session::~Session() {
  stop();
  if (session_ != nullptr) fuse_session_destroy(session_);  // closes fd_
}

Session& Session::of(fuse_req* request) {
  return *static_cast<Session*>(fuse_req_userdata(request));
}

Status Session::attach(Channel& channel, const fuse_lowlevel_ops& operations) {
  std::array<const char*, 1> words = {"headrace"};
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(words.size()), const_cast<char**>(words.data()));
  session_ = fuse_session_new(&arguments, &operations, sizeof(operations), this);
  fuse_opt_free_args(&arguments);
  if (session_ == nullptr) return io::make_error(ErrorCode::kSystem, "libfuse session");

  fd_ = ::fcntl(channel.fd(), F_DUPFD_CLOEXEC, 0);
  const fuse_custom_io io = {
      .writev = write_reply, .read = refuse_read, .splice_receive = nullptr, .splice_send = nullptr};
  if (fd_ < 0 || fuse_session_custom_io(session_, &io, fd_) != 0) return io::system_error(errno, "libfuse session");
  const int flags = ::fcntl(fd_, F_GETFL);
  if (::fcntl(fd_, F_SETFL, flags | O_NONBLOCK) != 0) return io::system_error(errno, "libfuse session");
  if (!stop_.valid()) return io::system_error(errno, "eventfd");
  if (interrupts_.fd() < 0) return io::system_error(EMFILE, "timerfd");
  log_ = channel.request_log();
  return {};
}

// libfuse learns the protocol's version and flags from INIT alone, so each session is shown the one that was recorded;
// the kernel gets one answer only.
Status Session::replay_init(Channel& channel) {
  const std::span<const std::byte> request = channel.init_request();
  std::vector<std::byte> copy(request.begin(), request.end());
  fuse_buf buffer = {};
  buffer.mem = copy.data();
  buffer.size = copy.size();
  init_phase_ = channel.init_answered() ? InitPhase::kSwallow : InitPhase::kAnswer;
  fuse_session_process_buf(session_, &buffer);
  init_phase_ = InitPhase::kDone;
  if (!init_accepted_) return io::make_error(ErrorCode::kUnsupported, "the kernel's FUSE protocol");
  channel.set_init_answered();
  return {};
}

// Everything that libfuse sends comes through here.
std::int64_t Session::write_reply(int fd, iovec* parts, int count, void* userdata) {
  Session& self = *static_cast<Session*>(userdata);
  const auto& header = *static_cast<const fuse_out_header*>(parts[0].iov_base);
  if (self.init_phase_ == InitPhase::kDone) {
    const ssize_t written = ::writev(fd, parts, count);
    const int error = errno;
    if (header.unique != 0) self.log_->on_answered(header.unique);  // 0: a notification
    errno = error;
    return written;
  }

  self.init_accepted_ = header.error == 0 && count > 1;
  if (self.init_phase_ == InitPhase::kSwallow) return header.len;
  if (self.init_accepted_) {
    // libfuse 3.14 derives the size of READs from max_write, of which a read-only mount needs none.
    auto& init = *static_cast<fuse_init_out*>(parts[1].iov_base);
    if ((init.flags & FUSE_MAX_PAGES) != 0)
      init.max_pages = static_cast<std::uint16_t>(kReadBytesMax / io::page_bytes());
  }
  return ::writev(fd, parts, count);
}

Status Session::start(unsigned thread_count) {
  thread_count_ = thread_count;
  for (unsigned i = 0; i < thread_count; ++i) {
    const int wait_fd = make_wait_fd(std::array{fd_, log_->hint_fd(), interrupts_.fd()}, stop_.fd());
    if (wait_fd < 0) return io::system_error(errno, "epoll for a session thread");
    threads_.emplace_back([this, i, wait_fd] {
      ::pthread_setname_np(::pthread_self(), ("hr-fuse-" + std::to_string(i)).c_str());
      serve(wait_fd);
    });
  }
  return {};
}

bool Session::begin_wait() {
  if (waiting_threads_.fetch_add(1, std::memory_order_relaxed) + 1 < thread_count_) return true;
  waiting_threads_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void Session::serve(int wait_fd) {
  Reading reading;
  while (!stopping_.load() && serve_one(reading, wait_fd)) continue;
  if (reading.slot != nullptr) log_->give_back(*reading.slot);
  ::close(wait_fd);
  end();
}

// False once the kernel has ended the mount.
bool Session::serve_one(Reading& reading, int wait_fd) {
  if (reading.slot == nullptr) reading.slot = log_->claim();
  const std::span<std::byte> buffer = reading.buffer;
  const std::span<std::byte> head =
      reading.slot != nullptr ? std::span<std::byte>(reading.slot->request) : buffer.first(0);
  const std::span<std::byte> rest = buffer.subspan(head.size());
  const std::array<iovec, 2> parts = {{{head.data(), head.size()}, {rest.data(), rest.size()}}};
  const ssize_t count = ::readv(fd_, parts.data(), parts.size());
  if (count >= static_cast<ssize_t>(sizeof(fuse_in_header))) {
    const std::span<std::byte> request = buffer.first(static_cast<std::size_t>(count));
    std::ranges::copy(head.first(std::min(head.size(), request.size())), request.begin());
    RequestLog::Slot* const slot = std::exchange(reading.slot, nullptr);
    if (slot == nullptr || log_->keep(*slot, request)) process(request);
    return true;
  }
  if (count >= 0) return true;  // shorter than a header: never sent by a kernel; nothing to answer
  if (errno == EAGAIN) return wait_for_request(wait_fd);
  if (errno == EINTR || errno == ENOENT) return true;  // ENOENT: the request was withdrawn while being read
  if (errno != ENODEV && errno != ECONNABORTED)
    io::log_error("{}", io::Error{ErrorCode::kSystem, errno, "mount: read /dev/fuse"}.message());
  return false;
}

bool Session::wait_for_request(int wait_fd) {
  epoll_event event = {};
  const int ready = ::epoll_wait(wait_fd, &event, 1, -1);
  if (ready < 0) return errno == EINTR;
  if (ready == 1 && event.data.fd == log_->hint_fd()) {
    log_->take_hint();
    take_over();
  }
  if (ready == 1 && event.data.fd == interrupts_.fd()) let_killed_go();
  return true;
}

void Session::process(std::span<std::byte> request) {
  const fuse_in_header header = *reinterpret_cast<const fuse_in_header*>(request.data());
  counts_[header.opcode < kOpcodeCount ? header.opcode : 0].fetch_add(1, std::memory_order_relaxed);
  if (header.opcode == FUSE_INTERRUPT && request.size() >= sizeof(header) + sizeof(fuse_interrupt_in)) {
    fuse_interrupt_in interrupt = {};
    std::memcpy(&interrupt, request.data() + sizeof(header), sizeof(interrupt));
    interrupts_.note(interrupt.unique);
    log_->on_answered(header.unique);
    return let_killed_go();
  }
  fuse_buf buffer = {};
  buffer.mem = request.data();
  buffer.size = request.size();
  fuse_session_process_buf(session_, &buffer);
  if (header.opcode == FUSE_READ && log_->asker(header.unique))
    interrupts_.note(header.unique);  // it waits for storage
  if (!needs_answer(header.opcode)) log_->on_answered(header.unique);
}

// What was begun for them goes on, and its answer then finds nobody.
void Session::let_killed_go() {
  for (const std::uint64_t unique : interrupts_.take_killed(*log_)) refuse(unique, EINTR);
}

void Session::refuse(std::uint64_t unique, int error) {
  fuse_out_header refusal = {.len = sizeof(fuse_out_header), .error = -error, .unique = unique};
  iovec part = {&refusal, sizeof(refusal)};
  write_reply(fd_, &part, 1, this);
}

// Of one that is longer than a slot only the beginning is there. None is, that is answered with anything but an error.
void Session::take_over() {
  for (std::vector<std::byte>& request : log_->take_over()) {
    const auto& header = *reinterpret_cast<const fuse_in_header*>(request.data());
    if (header.len == request.size()) {
      process(request);
      continue;
    }
    refuse(header.unique, EIO);
  }
}

void Session::stop() {
  stopping_.store(true);
  stop_.set();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  end();
}

// An answer that comes late on another thread finds a file there that takes anything.
void Session::hang_up() {
  const io::UniqueFd nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nowhere.valid() || ::dup3(nowhere.get(), fd_, O_CLOEXEC) < 0) {
    io::log_warning("{}", io::Error{ErrorCode::kSystem, errno, "mount: let go of /dev/fuse"}.message());
  }
}

void Session::end() {
  io::MutexLock lock(mutex_);
  ended_ = true;
  ended_changed_.notify_all();
}

bool Session::ended() const {
  io::MutexLock lock(mutex_);
  return ended_;
}

void Session::wait_until_ended() {
  io::MutexLock lock(mutex_);
  while (!ended_) ended_changed_.wait(lock);
}

int Session::store(std::uint64_t inode, std::uint64_t offset, std::span<const std::byte> bytes) {
  fuse_bufvec data = FUSE_BUFVEC_INIT(bytes.size());
  data.buf[0].mem = const_cast<std::byte*>(bytes.data());
  return -fuse_lowlevel_notify_store(session_, inode, static_cast<off_t>(offset), &data, FUSE_BUF_NO_SPLICE);
}

int Session::invalidate(std::uint64_t inode, std::uint64_t offset, std::uint64_t length) {
  return -fuse_lowlevel_notify_inval_inode(session_, inode, static_cast<off_t>(offset), static_cast<off_t>(length));
}

int Session::invalidate_attributes(std::uint64_t inode) {
  return -fuse_lowlevel_notify_inval_inode(session_, inode, -1, 0);
}

int Session::invalidate_name(std::uint64_t parent, const std::string& name) {
  return -fuse_lowlevel_notify_inval_entry(session_, parent, name.c_str(), name.size());
}

}  // namespace headrace::fuse
