// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/shared_tier.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;
using io::make_error;
using io::MutexLock;
using std::chrono::milliseconds;

// A connection's own limits end what hangs; this only bounds how long nobody looks.
constexpr milliseconds kLookAtLeast{1000};

// How long a file that another node reads is waited for: 5, 10, 20 ms and then 40 ms each time. A reader that waits
// gets it from the source after 35 ms, which is what a source with latency needs; reads ahead have 0.6 s.
constexpr milliseconds kFirstWait{5};
constexpr milliseconds kWaitMax{40};
constexpr unsigned kUrgentWaits = 3;
constexpr unsigned kWaits = 17;

}  // namespace

Result<std::unique_ptr<SharedTier>> SharedTier::open(const SharedTierOptions& options, std::string data_set,
                                                     const Catalog& catalog, RamTier& ram) {
  if (options.bytes_per_peer == 0) {
    return make_error(ErrorCode::kInvalidArgument, "peers: how much memory does each share? Give a size");
  }
  std::unique_ptr<SharedTier> tier(new SharedTier(options, std::move(data_set), catalog, ram));
  if (!tier->wake_.valid()) return io::system_error(errno, "eventfd");
  HEADRACE_TRY_DO(tier->load_certificates(options.certificates));
  HEADRACE_TRY_DO(tier->find_peers(options.peers));
  tier->place_files();
  tier->thread_ = std::thread([&self = *tier] {
    ::pthread_setname_np(::pthread_self(), "hr-peers");
    sigset_t pipe;  // TLS writes to sockets that a peer may have closed
    ::sigemptyset(&pipe);
    ::sigaddset(&pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    self.run();
  });
  return tier;
}

SharedTier::SharedTier(const SharedTierOptions& options, std::string data_set, const Catalog& catalog, RamTier& ram)
    : data_set_(std::move(data_set)), catalog_(catalog), ram_(ram), bytes_per_peer_(options.bytes_per_peer) {}

SharedTier::~SharedTier() {
  join();
}

Status SharedTier::load_certificates(const std::filesystem::path& folder) {
  if (folder.empty()) return {};
  HEADRACE_TRY(tls, PeerTls::load(folder));
  tls_ = std::move(tls);
  return {};
}

Status SharedTier::find_peers(const std::vector<std::string>& names) {
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
  {
    MutexLock lock(mutex_);
    reasons_.resize(sorted.size());
  }
  for (const std::string& name : sorted) {
    Peer& peer = peers_.emplace_back();
    peer.name = name;
    peer.index = static_cast<PeerIndex>(peers_.size() - 1);
    Result<std::vector<PeerAddress>> addresses = resolve_peer(name, tls_ ? Reach::kAnywhere : Reach::kPrivate);
    if (addresses) {
      peer.addresses = std::move(*addresses);
      continue;
    }
    if (addresses.error().code != ErrorCode::kNotFound) return io::forward_error(std::move(addresses));
    set_reason(peer, addresses.error().message());
    say_down(peer);
  }
  return {};
}

void SharedTier::place_files() {
  std::vector<std::string> names;
  for (const Peer& peer : peers_) names.push_back(peer.name);
  owners_ = place_entries(catalog_, data_set_, names, bytes_per_peer_);
  for (EntryId entry = 0; entry < owners_.size(); ++entry) {
    if (owners_[entry] == kNoPeer) continue;
    peers_[owners_[entry]].placed_files += 1;
    peers_[owners_[entry]].placed_bytes += catalog_.size_bytes(entry);
  }
}

SharedKey SharedTier::key_of(const SharedId& id) const {
  return shared_key(data_set_, catalog_.path(id.entry), id.chunk, id.identity);
}

bool SharedTier::submit(Submission submission) {
  MutexLock lock(mutex_);
  if (closed_) return false;
  submitted_.push_back(std::move(submission));
  lock.unlock();
  wake_.set();
  return true;
}

bool SharedTier::get(SharedGet& request) {
  const PeerIndex peer = owners_[request.id.entry];
  if (peer == kNoPeer) return false;
  if (peers_[peer].addresses.empty()) return false;
  const PeerHealth::Ask ask = peers_[peer].health.may_ask(Clock::now());
  if (ask == PeerHealth::Ask::kNo) return false;
  Submission submission = submission_for(request, peer);
  submission.finds_out = ask == PeerHealth::Ask::kToFindOut;
  return submit(std::move(submission));
}

SharedTier::Submission SharedTier::submission_for(SharedGet& request, PeerIndex peer) {
  request.asked = Clock::now();
  auto wanted = std::make_unique<PeerRequest>();
  wanted->kind = PeerRequest::Kind::kGet;
  wanted->key = key_of(request.id);
  wanted->payload = {request.buffer.data(), request.payload_bytes};
  wanted->done = [this, &request, peer](Outcome outcome) { on_got(request, peer, outcome); };
  return {peer, Lane::kGet, false, std::move(wanted)};
}

void SharedTier::on_got(SharedGet& request, PeerIndex peer, Outcome outcome) {
  Peer& it = peers_[peer];
  if (outcome != Outcome::kFailed && it.health.note_answer()) io::log_info("peer {}: it answers again", it.name);
  if (outcome == Outcome::kComing && wait_for_value(request, peer)) return it.figures.note_wait();
  const bool hit = outcome == Outcome::kDone;
  it.figures.note_get(outcome, request.payload_bytes, Clock::now() - request.asked);
  if (hit) request.buffer.set_size(request.payload_bytes);
  request.on_done(request, hit);
}

// Several nodes may want a file in the same moment, and one of them reads the source for all. False: that takes too
// long.
bool SharedTier::wait_for_value(SharedGet& request, PeerIndex peer) {
  const bool urgent = request.is_urgent == nullptr || request.is_urgent(request);
  if (request.waits >= (urgent ? kUrgentWaits : kWaits)) return false;
  const milliseconds wait = std::min(kWaitMax, kFirstWait * (1U << std::min(request.waits, 3U)));
  request.waits += 1;
  delayed_.emplace(Clock::now() + wait, submission_for(request, peer));
  return true;
}

void SharedTier::put(Holding& holding, const SharedId& id, std::function<void()> done) {
  const PeerIndex peer = owners_[id.entry];
  const std::uint64_t bytes = holding.size;
  auto stored = std::make_unique<PeerRequest>();
  stored->kind = PeerRequest::Kind::kPut;
  stored->key = key_of(id);
  stored->payload = {holding.data, bytes};
  pending_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  // That it takes what it is given does not say that it gives it back: only gets tell how a peer is.
  auto end = [this, &holding, bytes, peer, done = std::move(done)](Outcome outcome) {
    peers_[peer].figures.note_put(outcome, bytes);
    pending_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    ram_.unpin_written(holding);
    done();
  };
  stored->header = make_header(stored->key, stored->payload);
  stored->done = end;
  if (!submit({peer, Lane::kPut, false, std::move(stored)})) end(Outcome::kFailed);
}

void SharedTier::join() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  wake_.set();
  if (thread_.joinable()) thread_.join();
}

void SharedTier::run() {
  while (true) {
    start_submitted();
    MutexLock lock(mutex_);
    if (closed_ && submitted_.empty()) break;
    lock.unlock();
    wait_for_sockets();
    end_late();
    start_due();
  }
  for (auto& [due, submission] : std::exchange(delayed_, {})) submission.request->done(Outcome::kFailed);
  for (Peer& peer : peers_) {
    for (auto& lane : peer.lanes) lane.reset();  // ends what it has as failed
  }
}

void SharedTier::start_submitted() {
  wake_.clear();
  std::vector<Submission> submitted;
  {
    MutexLock lock(mutex_);
    submitted.swap(submitted_);
  }
  for (Submission& submission : submitted) start(std::move(submission));
}

void SharedTier::start_due() {
  const Clock::time_point now = Clock::now();
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    start(std::move(delayed_.extract(delayed_.begin()).mapped()));
  }
}

void SharedTier::start(Submission submission) {
  Peer& peer = peers_[submission.peer];
  if (is_down(peer) && !submission.finds_out) return submission.request->done(Outcome::kFailed);
  auto& lane = peer.lanes[static_cast<std::size_t>(submission.lane)];
  if (!lane) lane = std::make_unique<PeerConnection>(peer.addresses[peer.address_at], tls_.get());
  lane->submit(std::move(submission.request));
  advance(peer, submission.lane);
}

void SharedTier::wait_for_sockets() {
  std::vector<pollfd> sockets = {{.fd = wake_.fd(), .events = POLLIN, .revents = 0}};
  std::vector<std::pair<Peer*, Lane>> owners = {{nullptr, Lane::kGet}};
  for (Peer& peer : peers_) {
    for (const Lane lane : kLanes) {
      const PeerConnection* connection = peer.lanes[static_cast<std::size_t>(lane)].get();
      if (connection == nullptr) continue;
      const short events = static_cast<short>(POLLIN | (connection->wants_to_send() ? POLLOUT : 0));
      sockets.push_back({.fd = connection->fd(), .events = events, .revents = 0});
      owners.emplace_back(&peer, lane);
    }
  }
  const Clock::time_point look = next_look();
  int timeout = -1;
  if (look != Clock::time_point::max()) {
    const auto left = std::chrono::ceil<milliseconds>(look - Clock::now()).count();
    timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, kLookAtLeast.count()));
  }
  if (::poll(sockets.data(), sockets.size(), timeout) <= 0) return;
  for (std::size_t i = 1; i < sockets.size(); ++i) {
    if (sockets[i].revents != 0) advance(*owners[i].first, owners[i].second);
  }
}

SharedTier::Clock::time_point SharedTier::next_look() const {
  Clock::time_point next = delayed_.empty() ? Clock::time_point::max() : delayed_.begin()->first;
  for (const Peer& peer : peers_) {
    for (const auto& lane : peer.lanes) {
      if (lane) next = std::min(next, lane->late_at());
    }
  }
  return next;
}

// Ends what is late, and only that lane: the next request begins a new connection. What has come while this thread was
// busy with other peers is taken first, or a peer would be blamed for that.
void SharedTier::end_late() {
  for (Peer& peer : peers_) {
    for (const Lane which : kLanes) {
      auto& lane = peer.lanes[static_cast<std::size_t>(which)];
      const Clock::time_point now = Clock::now();
      if (!lane || now < lane->late_at()) continue;
      advance(peer, which);
      if (!lane || now < lane->late_at()) continue;
      const std::unique_ptr<PeerConnection> late = std::move(lane);
      if (!late->was_answered() && try_next_address(peer)) continue;
      set_reason(peer, "it is silent, or too slow");
      if (peer.health.note_late(now)) say_down(peer);
    }
  }
}

void SharedTier::advance(Peer& peer, Lane lane) {
  const auto& connection = peer.lanes[static_cast<std::size_t>(lane)];
  if (connection && !connection->advance()) on_broken(peer, lane);
}

// What was in flight ends as failed. That begins reads of the source, on this thread, which do not wait.
void SharedTier::on_broken(Peer& peer, Lane lane) {
  const std::unique_ptr<PeerConnection> broken = std::move(peer.lanes[static_cast<std::size_t>(lane)]);
  if (broken->idle()) return;  // a peer may close what nobody uses
  if (!broken->was_answered() && try_next_address(peer)) return;
  set_reason(peer, broken->error());
  if (peer.health.note_broken(Clock::now())) say_down(peer);
  for (auto& other : peer.lanes) {
    const std::unique_ptr<PeerConnection> ended = std::move(other);
  }
}

// A host with several addresses may listen on one of them. False: all were tried.
bool SharedTier::try_next_address(Peer& peer) {
  peer.address_at = (peer.address_at + 1) % peer.addresses.size();
  return peer.address_at != 0;
}

void SharedTier::set_reason(const Peer& peer, const std::string& reason) {
  MutexLock lock(mutex_);
  reasons_[peer.index] = reason;
}

void SharedTier::say_down(const Peer& peer) {
  std::string reason;
  {
    MutexLock lock(mutex_);
    reason = reasons_[peer.index];
  }
  io::log_warning("peer {}: {}; its files are read from the source", peer.name, reason);
}

std::vector<PeerStats> SharedTier::peer_stats() const {
  std::vector<PeerStats> all;
  MutexLock lock(mutex_);
  for (const Peer& peer : peers_) {
    PeerStats& stats = all.emplace_back();
    stats.name = peer.name;
    stats.state = peer.figures.is_full() ? "full" : "ok";
    if (is_down(peer)) stats.state = "down: " + reasons_[peer.index];
    stats.samples = peer.placed_files;
    stats.bytes = peer.placed_bytes;
    peer.figures.add_to(stats);
  }
  return all;
}

TierStats SharedTier::stats() const {
  TierStats stats;
  stats.kind = TierKind::kShared;
  stats.budget_bytes = bytes_per_peer_ * peers_.size();
  stats.placement = fmt::format("{} peers hold what hashing gives them", peers_.size());
  bool full = false;
  for (const PeerStats& peer : peer_stats()) {
    stats.samples += peer.samples;
    stats.used_bytes += peer.bytes;
    stats.hits += peer.hits;
    stats.hit_bytes += peer.hit_bytes;
    stats.writes += peer.writes;
    stats.write_bytes += peer.write_bytes;
    stats.errors += peer.errors;
    stats.corrupt += peer.corrupt;
    stats.path += (stats.path.empty() ? "" : ",") + peer.name;
    full = full || peer.state == "full";
    if (!peer.state.starts_with("down")) continue;
    stats.state += fmt::format("{}{} is {}", stats.state.empty() ? "" : "; ", peer.name, peer.state);
  }
  if (stats.state.empty()) stats.state = full ? "full" : "ok";
  return stats;
}

}  // namespace headrace::cache
