// SPDX-License-Identifier: Apache-2.0
// The memcached of this node: what it holds for the nodes that share.
//
//   HEADRACE_TRY(service, plan_memcached(store_options.shared));    // whether there is one to start, and how
//   const auto keeper = MemcachedKeeper::start(service.words);      // in the supervisor, before it forks
//
// A process of its own, hr-memcached, starts memcached, and starts it again when it has ended. It is a child of the
// mount's supervisor, so that memcached outlives each worker, and ends with the mount. If the supervisor is killed, the
// kernel tells it.
//
// Thread-safety: plan_memcached() from any thread; a keeper by the thread that made it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "headrace/cache/own_peer.h"
#include "headrace/cache/tier.h"
#include "headrace/io/result.h"

namespace headrace::cli {

struct MemcachedPlan {
  std::vector<std::string> words;  // what is run; empty: nothing
  std::string peer;                // whom it serves, HOST:PORT; empty: this machine is none of the peers
  std::string why_not;             // where there are no words: why
};

// `runs`: it was started already, by the program before this one. Errors: those of cache::find_own_peers().
[[nodiscard]] io::Result<MemcachedPlan> plan_memcached(const cache::SharedTierOptions& shared, bool runs = false);
// The command for one peer, with the options that hold most of the memory as data and evict nothing.
[[nodiscard]] std::vector<std::string> memcached_command(const cache::SharedTierOptions& shared,
                                                         const cache::OwnPeer& peer);
[[nodiscard]] std::string as_command_line(const std::vector<std::string>& words);

class MemcachedKeeper {
 public:
  // Returns once it listens, or when that takes long: the mount works without it, too. Errors: kSystem (fork).
  [[nodiscard]] static io::Result<MemcachedKeeper> start(const MemcachedPlan& plan);
  // One that the program before this one has started in this process.
  [[nodiscard]] static MemcachedKeeper take_over(pid_t keeper) { return MemcachedKeeper(keeper); }
  [[nodiscard]] pid_t pid() const { return keeper_; }
  // Ends both processes, and waits for that.
  ~MemcachedKeeper();
  MemcachedKeeper(MemcachedKeeper&& other) noexcept : keeper_(std::exchange(other.keeper_, -1)) {}
  MemcachedKeeper& operator=(MemcachedKeeper&&) = delete;

 private:
  explicit MemcachedKeeper(pid_t keeper) : keeper_(keeper) {}

  pid_t keeper_;
};

}  // namespace headrace::cli
