// SPDX-License-Identifier: Apache-2.0
// Which files have changed since something of them was fetched, and which of them the kernel is still to forget.
//
//   StaleFiles stale(kernel);
//   const std::uint64_t changes = stale.changes();    // a fetch begins
//   stale.add(entries);                               // these have changed
//   if (stale.has_changed(entry, changes)) drop();    // it was fetched before that
//   stale.forget();                                   // tells the kernel
//
// Thread-safety: every function from any thread. forget() may block as KernelPages does. Ownership: `kernel` outlives
// it.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/fuse/push/kernel_pages.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

class StaleFiles {
 public:
  explicit StaleFiles(KernelPages& kernel) : kernel_(kernel) {}

  void add(std::span<const cache::EntryId> entries);
  // The kernel has pages of the file that nobody knows of: what is fetched of it is right all the same.
  void add_for_kernel(cache::EntryId entry);
  // How many times add() was called.
  [[nodiscard]] std::uint64_t changes() const;
  // Whether add() named the file after changes() was `since`.
  [[nodiscard]] bool has_changed(cache::EntryId entry, std::uint64_t since) const;
  // Does it, unless the file has changed since then; no change comes in between.
  template <typename Do>
  void unless_changed(cache::EntryId entry, std::uint64_t since, Do what) const HEADRACE_EXCLUDES(mutex_) {
    const io::MutexLock lock(mutex_);
    if (!is_changed(entry, since)) what();
  }

  // Something is to be forgotten, and nobody is at it.
  [[nodiscard]] bool must_forget() const;
  // By one thread at a time; another's call returns at once.
  void forget();
  // Returns when the kernel has forgotten all that was added until now; false at the deadline, or after stop().
  [[nodiscard]] bool wait_until_forgotten(std::chrono::steady_clock::time_point deadline);
  void stop();  // nobody forgets any more

 private:
  [[nodiscard]] bool is_changed(cache::EntryId entry, std::uint64_t since) const HEADRACE_REQUIRES(mutex_);

  KernelPages& kernel_;
  mutable io::Mutex mutex_;
  io::CondVar forgot_;
  std::uint64_t changes_ HEADRACE_GUARDED_BY(mutex_) = 0;
  std::unordered_map<cache::EntryId, std::uint64_t> changed_at_ HEADRACE_GUARDED_BY(mutex_);  // changes_ then
  std::vector<cache::EntryId> to_forget_ HEADRACE_GUARDED_BY(mutex_);
  bool forgets_ HEADRACE_GUARDED_BY(mutex_) = false;  // the kernel is being told
  bool stopped_ HEADRACE_GUARDED_BY(mutex_) = false;
};

}  // namespace headrace::fuse
