// SPDX-License-Identifier: Apache-2.0
// One libfuse session over a Channel, with threads of our own that read requests and hand them to its operations.
//
//   auto session = Session::open(channel, role, operations, requests);   // answers INIT, unless somebody has
//   session->take_over();
//   session->start(4);
//   session->store(inode, 0, bytes);                           // NOTIFY_STORE
//   session->stop();
//
// libfuse decodes and encodes; the loop is ours, because libfuse 3.14's own can neither be stopped without a signal nor
// count what arrives, and because a session that takes over must be fed the INIT that another process answered.
//
// Thread-safety: every function from any thread after start(); the notifications block while the kernel has a page of
// the file locked for a READ, so they must not be sent by a thread that answers READs.
// Ownership: shared by whoever still has a request to answer. The handler lives as long.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "headrace/fuse/channel.h"
#include "headrace/fuse/kernel/interrupts.h"
#include "headrace/fuse/kernel/request_log.h"
#include "headrace/io/mutex.h"
#include "headrace/io/result.h"
#include "headrace/io/wake_event.h"

struct fuse_lowlevel_ops;
struct fuse_req;
struct fuse_session;
struct iovec;

namespace headrace::fuse {

// Nothing is ever written through a read-only mount. The operations' init() must set this: the loop's buffers suit it.
inline constexpr unsigned kMaxWriteBytes = 4096;
// Kinds of requests are counted by opcode; the kernel's highest is 52 today.
inline constexpr std::size_t kOpcodeCount = 64;
// "READ" for 15; empty for what the protocol does not define.
[[nodiscard]] std::string_view opcode_name(std::size_t opcode);

class Session : public std::enable_shared_from_this<Session> {
 public:
  // `role`: whether it answers in the place of a worker. Errors: kUnsupported (the kernel's protocol is too old),
  // kSystem.
  [[nodiscard]] static Result<std::shared_ptr<Session>> open(Channel& channel, RequestLog::Role role,
                                                             const fuse_lowlevel_ops& operations,
                                                             std::shared_ptr<void> handler);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] int fd() const { return fd_; }  // /dev/fuse
  // The session that a request came through, and its handler.
  [[nodiscard]] static Session& of(fuse_req* request);
  [[nodiscard]] void* handler() const { return handler_.get(); }

  [[nodiscard]] Status start(unsigned thread_count);
  // Ends the threads; requests that are not read yet stay with the kernel. Idempotent; not from a session thread.
  void stop();
  // After stop(): lets go of /dev/fuse. When nobody else has it open the kernel fails what was not answered.
  void hang_up();
  // True once the kernel has ended the mount or stop() was called.
  [[nodiscard]] bool ended() const;
  void wait_until_ended();

  // Leave for a session thread to wait for storage: one thread always stays ready for requests.
  class Wait {
   public:
    explicit Wait(Session& session) : session_(session), granted_(session.begin_wait()) {}
    ~Wait() {
      if (granted_) session_.waiting_threads_.fetch_sub(1, std::memory_order_relaxed);
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    [[nodiscard]] bool granted() const { return granted_; }

   private:
    Session& session_;
    const bool granted_;
  };

  // Puts bytes of a file into the page cache. 0 or an errno: ENOENT when the kernel does not know the inode.
  [[nodiscard]] int store(std::uint64_t inode, std::uint64_t offset, std::span<const std::byte> bytes);
  // Drops the pages and attributes of an inode. 0 or an errno: ENOENT when the kernel does not know it.
  [[nodiscard]] int invalidate(std::uint64_t inode) { return invalidate(inode, 0, 0); }
  // The same with the pages of a range alone; a length of 0 is the rest of the file.
  [[nodiscard]] int invalidate(std::uint64_t inode, std::uint64_t offset, std::uint64_t length);
  // Drops the attributes alone: unlike the two above, it waits for no page.
  [[nodiscard]] int invalidate_attributes(std::uint64_t inode);
  // Has the kernel look the name up again when it is opened next. Waits for whoever looks into the folder just now.
  [[nodiscard]] int invalidate_name(std::uint64_t parent, const std::string& name);
  // Answers what processes before this one have read and not answered.
  void take_over();

  [[nodiscard]] std::uint64_t request_count(std::size_t opcode) const { return counts_[opcode].load(); }

 private:
  enum class InitPhase : std::uint8_t { kDone, kAnswer, kSwallow };

  explicit Session(std::shared_ptr<void> handler) : handler_(std::move(handler)) {}
  [[nodiscard]] Status attach(Channel& channel, const fuse_lowlevel_ops& operations);
  [[nodiscard]] Status replay_init(Channel& channel);
  [[nodiscard]] bool begin_wait();
  void serve(int wait_fd);
  struct Reading;
  bool serve_one(Reading& reading, int wait_fd);
  bool wait_for_request(int wait_fd);
  void process(std::span<std::byte> request);
  void let_killed_go();
  void refuse(std::uint64_t unique, int error);
  void end();
  static std::int64_t write_reply(int fd, iovec* parts, int count, void* userdata);

  const std::shared_ptr<void> handler_;
  std::shared_ptr<RequestLog> log_;  // from attach() on
  fuse_session* session_ = nullptr;  // its descriptor is a duplicate of the channel's
  int fd_ = -1;                      // that descriptor
  Interrupts interrupts_;
  io::WakeEvent stop_;                       // set once the threads are to end
  InitPhase init_phase_ = InitPhase::kDone;  // changes before the threads start only
  bool init_accepted_ = false;               // likewise
  std::array<std::atomic<std::uint64_t>, kOpcodeCount> counts_ = {};
  std::atomic<bool> stopping_ = false;
  unsigned thread_count_ = 0;  // changes before the threads start only
  std::atomic<unsigned> waiting_threads_ = 0;

  mutable io::Mutex mutex_;
  io::CondVar ended_changed_;
  bool ended_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // start() and stop() only
};

}  // namespace headrace::fuse
