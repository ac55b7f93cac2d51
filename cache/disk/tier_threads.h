// SPDX-License-Identifier: Apache-2.0
// The threads of a disk tier, each with an engine of its own. All of them read; only the first one, the writer, appends
// records, cleans segments and saves indexes, so that these need no lock.
//
//   auto threads = TierThreads::start({.kind = TierKind::kSsd, .count = 4});
//   TierThreads::Turn turn = (*threads)->take_turn();   // at the thread with the fewest turns
//   turn.thread().submit(operation);                    // its on_complete ends the turn
//   (*threads)->writer().post([&] { log.append(record); });
//
// One thread reads, checks and hands over 6.4 GB/s of samples of 108 kB (bench/cost_model.py).
//
// Thread-safety: every function from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "headrace/cache/tier.h"
#include "headrace/io/engine.h"
#include "headrace/io/io_thread.h"

namespace headrace::cache {

// How many threads a tier of this kind is read by on a machine with so many processors.
[[nodiscard]] unsigned tier_thread_count(TierKind kind, unsigned processors);

struct TierThreadsOptions {
  TierKind kind = TierKind::kSsd;
  unsigned count = 0;  // 0: as HEADRACE_TIER_THREADS says, else tier_thread_count() of this machine
  io::EngineOptions engine = {};
  std::function<io::Result<std::unique_ptr<io::Engine>>()> make_engine = {};  // for tests
};

class TierThreads {
  struct Lane {
    std::unique_ptr<io::IoThread> thread;
    std::atomic<std::uint32_t> turns = 0;
  };

 public:
  // Something that one of the threads has to do, counted there for as long as this lives.
  // Ownership: must not outlive the TierThreads. Thread-safety: as a plain value.
  class Turn {
   public:
    Turn() = default;
    ~Turn() { end(); }
    Turn(Turn&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)) {}
    Turn& operator=(Turn&& other) noexcept {
      if (this != &other) end();
      lane_ = std::exchange(other.lane_, nullptr);
      return *this;
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    [[nodiscard]] io::IoThread& thread() const { return *lane_->thread; }

   private:
    friend class TierThreads;
    explicit Turn(Lane& lane) : lane_(&lane) { lane.turns.fetch_add(1, std::memory_order_relaxed); }
    void end() {
      if (lane_ != nullptr) lane_->turns.fetch_sub(1, std::memory_order_relaxed);
    }
    Lane* lane_ = nullptr;
  };

  // Where a later thread cannot be started, those before it do its work, and the log says so.
  // Errors: those of io::IoThread::start(), of the first thread.
  [[nodiscard]] static io::Result<std::unique_ptr<TierThreads>> start(const TierThreadsOptions& options);
  ~TierThreads() { stop(); }
  TierThreads(const TierThreads&) = delete;
  TierThreads& operator=(const TierThreads&) = delete;

  [[nodiscard]] std::size_t count() const { return lanes_.size(); }
  [[nodiscard]] io::IoThread& writer() const { return *lanes_.front()->thread; }
  // At the thread with the fewest turns: a read finds one that is not busy, if there is one.
  [[nodiscard]] Turn take_turn();
  // At the writer, so that reads go to other threads meanwhile.
  [[nodiscard]] Turn take_turn_of_writer() { return Turn(*lanes_.front()); }

  // As io::IoThread::hurry(), register_file() and unregister_file(), of all threads.
  void hurry();
  void register_file(int fd);
  // `owner` keeps the file open until no thread has it registered.
  void unregister_file(int fd, const std::shared_ptr<void>& owner);
  // Waits until each thread has finished the completion that it is in.
  void settle();
  // As io::IoThread::stop(), of all threads.
  void stop();

 private:
  TierThreads() = default;

  std::vector<std::unique_ptr<Lane>> lanes_;  // constant once start() has returned
};

}  // namespace headrace::cache
