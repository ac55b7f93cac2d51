// SPDX-License-Identifier: Apache-2.0
// The tier that several nodes share: the memory of a memcached on each of them, between a node's own tiers and the
// source. The placement says which peer holds a file; nobody keeps a list, and no peer is asked in vain.
//
//   auto shared = SharedTier::open({.peers = {"n1", "n2"}, .bytes_per_peer = 64ULL << 30}, "/data", catalog, ram);
//   if (!(*shared)->get(request)) read_source();   // no peer holds it, or its peer is down
//   (*shared)->put(holding, id, done);             // behind the reader's back
//
// No read fails because of a peer: whatever goes wrong is a miss, and the source is read. A peer that refuses, breaks
// off or is late again and again is down for a second (peer_health.h); then one request finds out whether it is back.
//
// Who shares may change while it is read: a request that is under way ends with the peer that it was given to, the next
// one goes to whom the new list names. Nodes whose lists differ serve the right bytes all the same, but read more of
// the source; so they compare their lists (peer_statement.h), and say so.
//
// Thread-safety: every function from any thread. One thread, hr-peers, talks to all peers.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/cache/clear_share.h"
#include "headrace/cache/memory/ram_tier.h"
#include "headrace/cache/shared/peer_connection.h"
#include "headrace/cache/shared/peer_figures.h"
#include "headrace/cache/shared/peer_ring.h"
#include "headrace/cache/shared/peer_tls.h"
#include "headrace/cache/tier.h"
#include "headrace/io/buffer.h"
#include "headrace/io/mutex.h"
#include "headrace/io/slow_calls.h"
#include "headrace/io/wake_event.h"

namespace headrace::cache {

// One chunk of one file, as it is known to be.
struct SharedId {
  EntryId entry = 0;
  std::uint32_t chunk = 0;
  Identity identity;
};

// Ownership: the caller's; must neither move nor die until on_done has run (exactly once).
struct SharedGet {
  SharedId id;
  io::Buffer buffer;  // capacity: the payload; given back in any case
  std::uint64_t payload_bytes = 0;
  bool (*is_urgent)(const SharedGet& self) = nullptr;    // whether a reader waits by now
  void (*on_done)(SharedGet& self, bool hit) = nullptr;  // on the peers' thread; must not block
  void* context = nullptr;
  // Of the tier: how often it was told that another node is reading the file, and when it asked last.
  unsigned waits = 0;
  std::chrono::steady_clock::time_point asked = {};
};

class SharedTier {
 public:
  // Errors: kInvalidArgument (too many peers, one twice, no size, a public address without TLS, a wrong certificate).
  // A peer whose name is not known is down for good, and said to be.
  [[nodiscard]] static Result<std::unique_ptr<SharedTier>> open(const SharedTierOptions& options, std::string data_set,
                                                                const Catalog& catalog, RamTier& ram);
  ~SharedTier();
  SharedTier(const SharedTier&) = delete;
  SharedTier& operator=(const SharedTier&) = delete;

  // Who shares from now on. Looks up again where names lead whose peers are down, and compares the list with those of
  // the others, also where it is the same: whoever calls this from time to time notices both. Errors: as open(), then
  // nothing has changed. Blocks for the resolver.
  [[nodiscard]] Status set_peers(const std::vector<std::string>& names);
  // Whether a peer is to hold the file. In the clear none does whose mode keeps it from others (clear_share.h).
  [[nodiscard]] bool holds(EntryId entry) const { return may_give(entry) && ring()->holder_of(entry) != nullptr; }
  // Whether the peer that is to hold the file is there to take it.
  [[nodiscard]] bool takes(EntryId entry) const;
  // False: no peer holds it, or its peer is down; on_done does not run.
  [[nodiscard]] bool get(SharedGet& request);
  // The content of a holding that RamTier::pin_for_write() has given, which is unpinned in the end. `done` runs on the
  // peers' thread, or at once. kNotFound: no peer is to hold it; kNoSpace: its peer is full; kBusy: it does not answer.
  void put(Holding& holding, const SharedId& id, std::function<void(Status)> done);
  [[nodiscard]] std::uint64_t pending_bytes() const { return pending_bytes_.load(std::memory_order_relaxed); }
  // Ends what is in flight: gets as misses. What comes later ends at once.
  void join();
  struct Served {
    std::uint64_t by_own = 0;     // chunks that the peer gave that is this node
    std::uint64_t by_others = 0;  // that the others gave
  };
  [[nodiscard]] Served served() const;
  [[nodiscard]] TierStats stats() const;
  [[nodiscard]] std::vector<PeerStats> peer_stats() const;  // sorted by name

 private:
  using Clock = std::chrono::steady_clock;
  using Outcome = PeerRequest::Outcome;
  using Ring = std::shared_ptr<const PeerRing>;
  using Peer = std::shared_ptr<RingPeer>;

  enum class Lane : std::uint8_t { kGet, kPut };  // the numbers of RingPeer::lanes
  static constexpr std::array<Lane, 2> kLanes = {Lane::kGet, Lane::kPut};
  struct Submission {
    Peer peer;
    Lane lane = Lane::kGet;
    bool finds_out = false;  // whether a peer that was down is back
    std::unique_ptr<PeerRequest> request = {};
  };

  SharedTier(const SharedTierOptions& options, std::string data_set, const Catalog& catalog, RamTier& ram);
  [[nodiscard]] Status load_certificates(const std::filesystem::path& folder);
  [[nodiscard]] Ring ring() const;
  // In the clear, what others may not read is neither given to a peer nor asked of it.
  [[nodiscard]] bool may_give(EntryId entry) const { return tls_ != nullptr || may_share_in_clear(catalog_, entry); }
  [[nodiscard]] bool is_own(const RingPeer& peer) const { return own_peer_ && peer.name == *own_peer_; }
  [[nodiscard]] SharedKey key_of(const SharedId& id) const;
  [[nodiscard]] bool submit(Submission submission);
  [[nodiscard]] Submission submission_for(SharedGet& request, Peer peer);
  void on_got(SharedGet& request, const Peer& peer, Outcome outcome);

  // On the peers' thread.
  void run();
  void start_submitted();
  void start_due();
  void start(Submission submission);
  [[nodiscard]] bool wait_for_value(SharedGet& request, const Peer& peer);
  void wait_for_sockets();
  void end_late();
  void end_late(RingPeer& peer, Lane which);
  void let_go_of_who_left();
  void advance(RingPeer& peer, Lane lane);
  void on_broken(RingPeer& peer, Lane lane);
  [[nodiscard]] static bool try_next_address(RingPeer& peer);
  [[nodiscard]] Clock::time_point next_look() const;
  void compare_lists();
  void state_list(const Ring& ring, const Peer& own);
  void ask_for_list(const Ring& ring, const Peer& peer);

  const std::string data_set_;
  const Catalog& catalog_;
  RamTier& ram_;
  const std::uint64_t bytes_per_peer_;
  const std::optional<std::string> own_peer_;
  std::unique_ptr<PeerTls> tls_;  // null: in the clear
  io::WakeEvent wake_;
  std::vector<Peer> served_;                              // peers' thread; those that it has or had requests for
  std::multimap<Clock::time_point, Submission> delayed_;  // peers' thread; gets, and when they are asked again

  std::atomic<std::uint64_t> pending_bytes_ = 0;
  std::atomic<std::uint64_t> own_hits_ = 0;
  PeerFigures figures_;  // of all peers, also of those that have left

  io::Mutex change_mutex_;  // one change at a time; before mutex_
  io::SlowCalls resolver_{"hr-names"};
  mutable io::Mutex ring_mutex_;
  Ring ring_ HEADRACE_GUARDED_BY(ring_mutex_);
  mutable io::Mutex mutex_;
  std::vector<Submission> submitted_ HEADRACE_GUARDED_BY(mutex_);
  bool compares_now_ HEADRACE_GUARDED_BY(mutex_) = false;
  bool closed_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace headrace::cache
