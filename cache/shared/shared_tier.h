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
// Thread-safety: every function from any thread. One thread, hr-peers, talks to all peers.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/cache/memory/ram_tier.h"
#include "headrace/cache/shared/peer_connection.h"
#include "headrace/cache/shared/peer_figures.h"
#include "headrace/cache/shared/peer_health.h"
#include "headrace/cache/shared/peer_placement.h"
#include "headrace/cache/shared/peer_tls.h"
#include "headrace/cache/tier.h"
#include "headrace/io/buffer.h"
#include "headrace/io/mutex.h"
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

  // Whether a peer is to hold the file.
  [[nodiscard]] bool holds(EntryId entry) const { return owners_[entry] != kNoPeer; }
  // Whether the peer that is to hold the file is there to take it.
  [[nodiscard]] bool takes(EntryId entry) const { return holds(entry) && !is_down(peers_[owners_[entry]]); }
  // False: no peer holds it, or its peer is down; on_done does not run.
  [[nodiscard]] bool get(SharedGet& request);
  // The content of a holding that RamTier::pin_for_write() has given, which is unpinned in the end. `done` runs on the
  // peers' thread.
  void put(Holding& holding, const SharedId& id, std::function<void()> done);
  [[nodiscard]] std::uint64_t pending_bytes() const { return pending_bytes_.load(std::memory_order_relaxed); }
  // Ends what is in flight: gets as misses. What comes later ends at once.
  void join();
  [[nodiscard]] TierStats stats() const;
  [[nodiscard]] std::vector<PeerStats> peer_stats() const;  // sorted by name

 private:
  using Clock = std::chrono::steady_clock;
  using Outcome = PeerRequest::Outcome;

  // Gets and puts have a connection each, so that nobody waits behind a chunk that is being stored.
  enum class Lane : std::uint8_t { kGet, kPut };
  static constexpr std::array<Lane, 2> kLanes = {Lane::kGet, Lane::kPut};
  struct Peer {
    std::string name;
    PeerIndex index = 0;
    std::vector<PeerAddress> addresses;                    // none: the name is not known
    std::size_t address_at = 0;                            // peers' thread; the one that answered, or is tried next
    std::array<std::unique_ptr<PeerConnection>, 2> lanes;  // peers' thread
    PeerHealth health;
    PeerFigures figures;
    std::uint64_t placed_files = 0;
    std::uint64_t placed_bytes = 0;
  };
  struct Submission {
    PeerIndex peer = kNoPeer;
    Lane lane = Lane::kGet;
    bool finds_out = false;  // whether a peer that was down is back
    std::unique_ptr<PeerRequest> request = {};
  };

  SharedTier(const SharedTierOptions& options, std::string data_set, const Catalog& catalog, RamTier& ram);
  [[nodiscard]] Status find_peers(const std::vector<std::string>& names);
  [[nodiscard]] Status load_certificates(const std::filesystem::path& folder);
  void place_files();
  [[nodiscard]] static bool is_down(const Peer& peer) { return peer.addresses.empty() || peer.health.is_down(); }
  [[nodiscard]] SharedKey key_of(const SharedId& id) const;
  [[nodiscard]] bool submit(Submission submission);
  [[nodiscard]] Submission submission_for(SharedGet& request, PeerIndex peer);
  void on_got(SharedGet& request, PeerIndex peer, Outcome outcome);

  // On the peers' thread.
  void run();
  void start_submitted();
  void start_due();
  void start(Submission submission);
  [[nodiscard]] bool wait_for_value(SharedGet& request, PeerIndex peer);
  void wait_for_sockets();
  void end_late();
  void advance(Peer& peer, Lane lane);
  void on_broken(Peer& peer, Lane lane);
  [[nodiscard]] static bool try_next_address(Peer& peer);
  void set_reason(const Peer& peer, const std::string& reason);
  void say_down(const Peer& peer);
  [[nodiscard]] Clock::time_point next_look() const;

  const std::string data_set_;
  const Catalog& catalog_;
  RamTier& ram_;
  const std::uint64_t bytes_per_peer_;
  std::unique_ptr<PeerTls> tls_;  // null: in the clear
  std::deque<Peer> peers_;        // sorted by name; never moved
  std::vector<PeerIndex> owners_;
  io::WakeEvent wake_;
  std::multimap<Clock::time_point, Submission> delayed_;  // peers' thread; gets, and when they are asked again

  std::atomic<std::uint64_t> pending_bytes_ = 0;

  mutable io::Mutex mutex_;
  std::vector<Submission> submitted_ HEADRACE_GUARDED_BY(mutex_);
  bool closed_ HEADRACE_GUARDED_BY(mutex_) = false;
  std::vector<std::string> reasons_ HEADRACE_GUARDED_BY(mutex_);  // why each peer is down
  std::thread thread_;
};

}  // namespace headrace::cache
