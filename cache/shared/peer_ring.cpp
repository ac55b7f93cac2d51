// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/peer_ring.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;
using io::make_error;
using io::MutexLock;
using Peers = std::vector<std::shared_ptr<RingPeer>>;
using Addresses = std::vector<PeerAddress>;

// A resolver asks the next name server after 5 s (resolv.conf(5)); so one that is away costs no name.
constexpr std::chrono::seconds kNamePatience{6};

Result<std::vector<std::string>> sorted_names(const std::vector<std::string>& names) {
  std::vector<std::string> sorted;
  for (const std::string& name : names) {
    HEADRACE_TRY(full, full_peer_name(name));
    sorted.push_back(std::move(full));
  }
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("peer '{}' is named twice", *twice));
  }
  HEADRACE_TRY_DO(check_peer_count(sorted.size()));
  return sorted;
}

bool are_same(const Addresses& one, const Addresses& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](const auto& a, const auto& b) {
    return a.length == b.length && std::memcmp(&a.socket, &b.socket, a.length) == 0;
  });
}

Result<Addresses> look_up(const std::string& name, const PeerRing::Options& options) {
  if (is_number(name)) return resolve_peer(name, options.reach);  // which waits for nobody
  auto found =
      options.resolver.within(kNamePatience, [name, reach = options.reach] { return resolve_peer(name, reach); });
  if (found) return std::move(*found);
  return make_error(ErrorCode::kNotFound, fmt::format("peer '{}': the name server does not answer", name));
}

// The peer of this name, which is `known` as long as it answers, or its name leads where it led.
Result<std::shared_ptr<RingPeer>> find_peer(const std::string& name, const std::shared_ptr<RingPeer>& known,
                                            const PeerRing::Options& options) {
  if (known != nullptr && !known->is_down()) return known;
  Result<Addresses> addresses = look_up(name, options);
  if (!addresses && addresses.error().code != ErrorCode::kNotFound) return io::forward_error(std::move(addresses));
  if (known != nullptr && (!addresses || are_same(*addresses, known->addresses))) return known;
  auto figures = known != nullptr ? known->figures : std::make_shared<PeerFigures>();
  auto peer = std::make_shared<RingPeer>(name, addresses.value_or(Addresses()), std::move(figures));
  if (known != nullptr) io::log_info("peer {}: its name leads elsewhere now", name);
  if (addresses) return peer;
  peer->set_reason(addresses.error().message());
  peer->say_down();
  return peer;
}

std::shared_ptr<RingPeer> named(const Peers& peers, const std::string& name) {
  const auto found = std::ranges::lower_bound(peers, name, {}, [](const auto& peer) { return peer->name; });
  return found != peers.end() && (*found)->name == name ? *found : nullptr;
}

}  // namespace

std::string RingPeer::reason() const {
  MutexLock lock(mutex_);
  return reason_;
}

void RingPeer::set_reason(const std::string& reason) {
  MutexLock lock(mutex_);
  reason_ = reason;
}

void RingPeer::say_down() const {
  io::log_warning("peer {}: {}; its files are read from the source", name, reason());
}

Result<std::shared_ptr<const PeerRing>> PeerRing::make(const Options& options,
                                                       const std::shared_ptr<const PeerRing>& before) {
  HEADRACE_TRY(names, sorted_names(options.names));
  std::shared_ptr<PeerRing> ring(new PeerRing());
  for (const std::string& name : names) {
    const std::shared_ptr<RingPeer> known = before == nullptr ? nullptr : named(before->peers_, name);
    HEADRACE_TRY(peer, find_peer(name, known, options));
    ring->peers_.push_back(std::move(peer));
  }
  if (before != nullptr && ring->peers_ == before->peers_) return before;
  const bool has_same_names =
      before != nullptr && std::ranges::equal(ring->peers_, before->peers_, {}, &RingPeer::name, &RingPeer::name);
  if (has_same_names) {
    ring->owners_ = before->owners_;
    ring->placed_ = before->placed_;
    ring->statement_ = before->statement_;
  } else {
    ring->place(options, names);
  }
  return ring;
}

void PeerRing::place(const Options& options, const std::vector<std::string>& names) {
  owners_ = place_entries(options.catalog, options.data_set, names, options.bytes_per_peer);
  placed_.resize(names.size());
  for (EntryId entry = 0; entry < owners_.size(); ++entry) {
    if (owners_[entry] == kNoPeer) continue;
    placed_[owners_[entry]].files += 1;
    placed_[owners_[entry]].bytes += options.catalog.size_bytes(entry);
  }
  statement_ = make_statement(names, options.bytes_per_peer, owners_);
}

}  // namespace headrace::cache
