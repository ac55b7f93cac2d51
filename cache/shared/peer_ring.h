// SPDX-License-Identifier: Apache-2.0
// Who shares, and which of them is to hold what: one list of peers and what follows from it. A list that changes makes
// another ring, in which a peer of both is the same one, with its connections and figures.
//
//   HEADRACE_TRY(ring, PeerRing::make({.names = names, .catalog = catalog, ...}, nullptr));
//   if (const auto* peer = ring->holder_of(entry)) ask(**peer);
//
// Thread-safety: a ring is constant after construction; its peers synchronise themselves but for what the peers' thread
// has of them. Ownership: shared; a request that is under way keeps its peer.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/cache/shared/peer_address.h"
#include "headrace/cache/shared/peer_connection.h"
#include "headrace/cache/shared/peer_figures.h"
#include "headrace/cache/shared/peer_health.h"
#include "headrace/cache/shared/peer_placement.h"
#include "headrace/cache/shared/peer_statement.h"
#include "headrace/io/mutex.h"
#include "headrace/io/slow_calls.h"

namespace headrace::cache {

// One peer at the addresses that its name led to. Where the name leads elsewhere, it is another one.
class RingPeer {
 public:
  RingPeer(std::string the_name, std::vector<PeerAddress> the_addresses, std::shared_ptr<PeerFigures> the_figures)
      : name(std::move(the_name)), addresses(std::move(the_addresses)), figures(std::move(the_figures)) {}

  [[nodiscard]] bool is_down() const { return addresses.empty() || health.is_down(); }
  [[nodiscard]] std::string reason() const;
  void set_reason(const std::string& reason);
  void say_down() const;

  const std::string name;
  const std::vector<PeerAddress> addresses;  // none: the name is not known
  const std::shared_ptr<PeerFigures> figures;
  PeerHealth health;
  std::atomic<Agreement> agreement = Agreement::kNotKnown;
  std::atomic<bool> has_left = false;  // of the ring that counts

  // Of the peers' thread. Gets and puts have a connection each, so that nobody waits behind a chunk that is stored.
  std::array<std::unique_ptr<PeerConnection>, 2> lanes;
  std::size_t address_at = 0;  // the one that answered, or is tried next
  bool is_served = false;

 private:
  mutable io::Mutex mutex_;
  std::string reason_ HEADRACE_GUARDED_BY(mutex_);  // why it is down
};

class PeerRing {
 public:
  struct Options {
    const std::vector<std::string>& names;
    const Catalog& catalog;
    std::string_view data_set;
    std::uint64_t bytes_per_peer = 0;
    Reach reach = Reach::kPrivate;
    io::SlowCalls& resolver;  // where names are looked up
  };
  // `before`: the ring that this one follows, or null; returned itself where nothing has changed. A name that is not
  // known is down, and said to be. Errors: kInvalidArgument (too many, one twice, a public address without TLS).
  // Blocks for the resolver, not for one that does not answer: what it is late with is not known for now.
  [[nodiscard]] static Result<std::shared_ptr<const PeerRing>> make(const Options& options,
                                                                    const std::shared_ptr<const PeerRing>& before);

  // Null: no peer is to hold the entry.
  [[nodiscard]] const std::shared_ptr<RingPeer>* holder_of(EntryId entry) const {
    return owners_[entry] == kNoPeer ? nullptr : &peers_[owners_[entry]];
  }
  [[nodiscard]] const std::vector<std::shared_ptr<RingPeer>>& peers() const { return peers_; }  // sorted by name
  [[nodiscard]] const PeerStatement& statement() const { return statement_; }
  struct Placed {
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] const Placed& placed(std::size_t peer) const { return placed_[peer]; }

 private:
  PeerRing() = default;
  void place(const Options& options, const std::vector<std::string>& names);

  std::vector<std::shared_ptr<RingPeer>> peers_;
  std::vector<PeerIndex> owners_;
  std::vector<Placed> placed_;  // as peers_
  PeerStatement statement_;
};

}  // namespace headrace::cache
