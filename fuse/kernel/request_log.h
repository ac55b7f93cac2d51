// SPDX-License-Identifier: Apache-2.0
// The requests that a process has read from /dev/fuse and not answered yet, for whoever takes over: the kernel hands
// out each of them once.
//
//   log.begin(RequestLog::Role::kWorker);
//   RequestLog::Slot* slot = log.claim();  // a thread's next request is read into slot->request
//   if (log.keep(*slot, copy)) ...         // it was, and is this process's to answer
//   log.on_answered(unique);
//   for (const auto& request : log.take_over()) ...  // what processes before this one left
//
// A request lies in the log from the moment when the kernel hands it out, because it is read into the log's memory: a
// process may be killed after any instruction. A request that is answered twice does no harm: numbers of requests never
// come again, and the kernel refuses an answer to one that it does not wait for.
//
// Memory: kSlotCount slots of 2 KiB in memory that processes share; those that were never used take none.
// Thread-safety: every function from any thread, but begin(). Ownership: shared by the channel and its session.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <sys/types.h>

#include "headrace/io/mutex.h"
#include "headrace/io/result.h"
#include "headrace/io/wake_event.h"

namespace headrace::fuse {

class RequestLog {
 public:
  // A session of a worker, or one that answers while a worker cannot (fuse/supervisor.h).
  enum class Role : std::uint8_t { kWorker, kStandIn };
  // The longest name that a kernel asks for, 1 024 bytes, fits. Longer requests are none that a read-only mount answers
  // with more than an error.
  static constexpr std::size_t kRequestBytes = 2048 - 64;
  // A request waits for each thread that reads cold files. A machine has 32 768 threads at most, unless it is large.
  static constexpr std::size_t kSlotCount = std::size_t{32} << 10;

  struct alignas(64) Slot {
    std::atomic<std::uint32_t> owner;  // the number of a session; 0: free
    alignas(64) std::array<std::byte, kRequestBytes> request;
  };

  // What open() needs of the file, from an offset that is a multiple of the page size on. Zero at first.
  [[nodiscard]] static std::size_t memory_bytes();
  [[nodiscard]] static io::Result<std::shared_ptr<RequestLog>> open(int fd, std::size_t offset);
  ~RequestLog();
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  // This process reads requests from now on. Once in a process.
  void begin(Role role);
  // A slot whose request is empty. nullptr: all are taken (a line in the log says so once); what is read then is lost
  // with the process.
  [[nodiscard]] Slot* claim();
  // A request was read into it; `request` is a copy. False: another process has taken it over in between, and answers
  // it.
  [[nodiscard]] bool keep(Slot& slot, std::span<const std::byte> request);
  // Nothing was read into it.
  void give_back(Slot& slot);
  // Or done with: some have no answer.
  void on_answered(std::uint64_t unique);

  // Which thread waits for a request that this process is to answer. nullopt: nobody is known to.
  [[nodiscard]] std::optional<pid_t> asker(std::uint64_t unique);

  // What processes that have gone left, now this one's to answer. A stand-in takes what a worker has, too, that is
  // stopped or that cannot go: it is begun for no other reason.
  [[nodiscard]] std::vector<std::vector<std::byte>> take_over();
  // In the supervisor, when the stand-in has gone: a worker that answers beside it is to take over what it left.
  void on_stand_in_gone();
  // Readable when take_over() is to be called; take_hint() makes it unreadable.
  [[nodiscard]] int hint_fd() const { return hint_.fd(); }
  void take_hint() { hint_.clear(); }

 private:
  struct Memory;
  explicit RequestLog(Memory* memory) : memory_(memory) {}
  void release(Slot& slot) HEADRACE_REQUIRES(mutex_);
  bool take(Slot& slot, std::uint32_t owner, std::vector<std::byte>& request);

  Memory* const memory_;
  io::WakeEvent hint_;
  Role role_ = Role::kWorker;
  std::uint32_t session_ = 0;  // this process's number in Slot::owner; as role_, begin() sets it

  io::Mutex mutex_;
  std::unordered_map<std::uint64_t, Slot*> slot_of_ HEADRACE_GUARDED_BY(mutex_);
  std::size_t maybe_free_ HEADRACE_GUARDED_BY(mutex_) = 0;  // all slots before it are taken
  bool was_full_ HEADRACE_GUARDED_BY(mutex_) = false;
};

}  // namespace headrace::fuse
