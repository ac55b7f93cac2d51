// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/shared_tier.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>

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

Status status_of_put(PeerRequest::Outcome outcome, const std::string& peer) {
  if (outcome == PeerRequest::Outcome::kDone) return {};
  if (outcome == PeerRequest::Outcome::kFull)
    return make_error(ErrorCode::kNoSpace, fmt::format("peer {}: is full", peer));
  return make_error(ErrorCode::kBusy, fmt::format("peer {}: does not answer", peer));
}

}  // namespace

Result<std::unique_ptr<SharedTier>> SharedTier::open(const SharedTierOptions& options, std::string data_set,
                                                     const Catalog& catalog, RamTier& ram) {
  if (options.bytes_per_peer == 0) {
    return make_error(ErrorCode::kInvalidArgument, "peers: how much memory does each share? Give a size");
  }
  std::unique_ptr<SharedTier> tier(new SharedTier(options, std::move(data_set), catalog, ram));
  if (!tier->wake_.valid()) return io::system_error(errno, "eventfd");
  HEADRACE_TRY_DO(tier->load_certificates(options.certificates));
  HEADRACE_TRY_DO(tier->set_peers(options.peers));
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
    : data_set_(std::move(data_set)),
      catalog_(catalog),
      ram_(ram),
      bytes_per_peer_(options.bytes_per_peer),
      own_peer_(options.own_peer) {}

SharedTier::~SharedTier() {
  join();
}

Status SharedTier::load_certificates(const std::filesystem::path& folder) {
  if (folder.empty()) return {};
  HEADRACE_TRY(tls, PeerTls::load(folder));
  tls_ = std::move(tls);
  return {};
}

Status SharedTier::set_peers(const std::vector<std::string>& names) {
  MutexLock change(change_mutex_);
  const Ring before = ring();
  HEADRACE_TRY(now, PeerRing::make({.names = names,
                                    .catalog = catalog_,
                                    .data_set = data_set_,
                                    .bytes_per_peer = bytes_per_peer_,
                                    .reach = tls_ ? Reach::kAnywhere : Reach::kPrivate,
                                    .resolver = resolver_},
                                   before));
  if (before != nullptr && now != before) {
    for (const Peer& peer : before->peers()) {
      const bool stays = std::ranges::find(now->peers(), peer) != now->peers().end();
      peer->has_left.store(!stays, std::memory_order_relaxed);
    }
  }
  {
    MutexLock lock(ring_mutex_);
    ring_ = now;
  }
  MutexLock lock(mutex_);
  compares_now_ = own_peer_.has_value();
  lock.unlock();
  wake_.set();
  return {};
}

SharedTier::Ring SharedTier::ring() const {
  MutexLock lock(ring_mutex_);
  return ring_;
}

bool SharedTier::takes(EntryId entry) const {
  if (!may_give(entry)) return false;
  const Ring now = ring();
  const Peer* const peer = now->holder_of(entry);
  return peer != nullptr && !(*peer)->is_down();
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
  if (!may_give(request.id.entry)) return false;
  const Ring now = ring();
  const Peer* const peer = now->holder_of(request.id.entry);
  if (peer == nullptr || (*peer)->addresses.empty()) return false;
  const PeerHealth::Ask ask = (*peer)->health.may_ask(Clock::now());
  if (ask == PeerHealth::Ask::kNo) return false;
  Submission submission = submission_for(request, *peer);
  submission.finds_out = ask == PeerHealth::Ask::kToFindOut;
  return submit(std::move(submission));
}

SharedTier::Submission SharedTier::submission_for(SharedGet& request, Peer peer) {
  request.asked = Clock::now();
  auto wanted = std::make_unique<PeerRequest>();
  wanted->kind = PeerRequest::Kind::kGet;
  wanted->key = key_of(request.id);
  wanted->payload = {request.buffer.data(), request.payload_bytes};
  wanted->done = [this, &request, peer](Outcome outcome) { on_got(request, peer, outcome); };
  return {std::move(peer), Lane::kGet, false, std::move(wanted)};
}

void SharedTier::on_got(SharedGet& request, const Peer& peer, Outcome outcome) {
  if (outcome != Outcome::kFailed && peer->health.note_answer()) io::log_info("peer {}: it answers again", peer->name);
  if (outcome == Outcome::kComing && wait_for_value(request, peer)) return peer->figures->note_wait();
  const bool hit = outcome == Outcome::kDone;
  const Clock::duration took = Clock::now() - request.asked;
  peer->figures->note_get(outcome, request.payload_bytes, took);
  figures_.note_get(outcome, request.payload_bytes, took);
  if (hit && is_own(*peer)) own_hits_.fetch_add(1, std::memory_order_relaxed);
  if (hit) request.buffer.set_size(request.payload_bytes);
  request.on_done(request, hit);
}

// Several nodes may want a file in the same moment, and one of them reads the source for all. False: that takes too
// long.
bool SharedTier::wait_for_value(SharedGet& request, const Peer& peer) {
  const bool urgent = request.is_urgent == nullptr || request.is_urgent(request);
  if (request.waits >= (urgent ? kUrgentWaits : kWaits)) return false;
  const milliseconds wait = std::min(kWaitMax, kFirstWait * (1U << std::min(request.waits, 3U)));
  request.waits += 1;
  delayed_.emplace(Clock::now() + wait, submission_for(request, peer));
  return true;
}

void SharedTier::put(Holding& holding, const SharedId& id, std::function<void(Status)> done) {
  const Ring now = ring();
  const Peer* const holder = now->holder_of(id.entry);
  if (holder == nullptr || !may_give(id.entry)) {  // the list has changed meanwhile
    ram_.unpin_written(holding);
    return done(make_error(ErrorCode::kNotFound, "no peer is to hold it"));
  }
  const std::uint64_t bytes = holding.size;
  auto stored = std::make_unique<PeerRequest>();
  stored->kind = PeerRequest::Kind::kPut;
  stored->key = key_of(id);
  stored->payload = {holding.data, bytes};
  pending_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  // That it takes what it is given does not say that it gives it back: only gets tell how a peer is.
  auto end = [this, &holding, bytes, peer = *holder, done = std::move(done)](Outcome outcome) {
    peer->figures->note_put(outcome, bytes);
    figures_.note_put(outcome, bytes);
    pending_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    ram_.unpin_written(holding);
    done(status_of_put(outcome, peer->name));
  };
  stored->header = make_header(stored->key, stored->payload);
  stored->done = end;
  if (!submit({*holder, Lane::kPut, false, std::move(stored)})) end(Outcome::kFailed);
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
    const bool compares = std::exchange(compares_now_, false);
    lock.unlock();
    let_go_of_who_left();
    if (compares) compare_lists();
    wait_for_sockets();
    end_late();
    start_due();
  }
  for (auto& [due, submission] : std::exchange(delayed_, {})) submission.request->done(Outcome::kFailed);
  for (const Peer& peer : served_) {
    for (auto& lane : peer->lanes) lane.reset();  // ends what it has as failed
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
  RingPeer& peer = *submission.peer;
  if (peer.is_down() && !submission.finds_out) return submission.request->done(Outcome::kFailed);
  if (!std::exchange(peer.is_served, true)) served_.push_back(submission.peer);
  auto& lane = peer.lanes[static_cast<std::size_t>(submission.lane)];
  if (!lane) lane = std::make_unique<PeerConnection>(peer.addresses[peer.address_at], tls_.get());
  lane->submit(std::move(submission.request));
  advance(peer, submission.lane);
}

// Of a peer that is on no list any more, what is under way ends first.
void SharedTier::let_go_of_who_left() {
  std::erase_if(served_, [](const Peer& peer) {
    if (!peer->has_left.load(std::memory_order_relaxed)) return false;
    if (!std::ranges::all_of(peer->lanes, [](const auto& lane) { return !lane || lane->idle(); })) return false;
    for (auto& lane : peer->lanes) lane.reset();
    peer->is_served = false;
    return true;
  });
}

void SharedTier::wait_for_sockets() {
  std::vector<pollfd> sockets = {{.fd = wake_.fd(), .events = POLLIN, .revents = 0}};
  std::vector<std::pair<RingPeer*, Lane>> owners = {{nullptr, Lane::kGet}};
  for (const Peer& peer : served_) {
    for (const Lane lane : kLanes) {
      const PeerConnection* connection = peer->lanes[static_cast<std::size_t>(lane)].get();
      if (connection == nullptr) continue;
      const short events = static_cast<short>(POLLIN | (connection->wants_to_send() ? POLLOUT : 0));
      sockets.push_back({.fd = connection->fd(), .events = events, .revents = 0});
      owners.emplace_back(peer.get(), lane);
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
  for (const Peer& peer : served_) {
    for (const auto& lane : peer->lanes) {
      if (lane) next = std::min(next, lane->late_at());
    }
  }
  return next;
}

void SharedTier::end_late() {
  // What ends begins reads of the source, which may ask another peer for the first time.
  for (std::size_t i = 0; i < served_.size(); ++i) {
    const Peer peer = served_[i];
    for (const Lane lane : kLanes) end_late(*peer, lane);
  }
}

// Ends what is late, and only that lane: the next request begins a new connection. What has come while this thread was
// busy with other peers is taken first, or a peer would be blamed for that.
void SharedTier::end_late(RingPeer& peer, Lane which) {
  auto& lane = peer.lanes[static_cast<std::size_t>(which)];
  const Clock::time_point now = Clock::now();
  if (!lane || now < lane->late_at()) return;
  advance(peer, which);
  if (!lane || now < lane->late_at()) return;
  const std::unique_ptr<PeerConnection> late = std::move(lane);
  if (!late->was_answered() && try_next_address(peer)) return;
  peer.set_reason("it is silent, or too slow");
  if (peer.health.note_late(now)) peer.say_down();
}

void SharedTier::advance(RingPeer& peer, Lane lane) {
  const auto& connection = peer.lanes[static_cast<std::size_t>(lane)];
  if (connection && !connection->advance()) on_broken(peer, lane);
}

// What was in flight ends as failed. That begins reads of the source, on this thread, which do not wait.
void SharedTier::on_broken(RingPeer& peer, Lane lane) {
  const std::unique_ptr<PeerConnection> broken = std::move(peer.lanes[static_cast<std::size_t>(lane)]);
  if (broken->idle()) return;  // a peer may close what nobody uses
  if (!broken->was_answered() && try_next_address(peer)) return;
  peer.set_reason(broken->error());
  if (peer.health.note_broken(Clock::now())) peer.say_down();
  for (auto& other : peer.lanes) {
    const std::unique_ptr<PeerConnection> ended = std::move(other);
  }
}

// A host with several addresses may listen on one of them. False: all were tried.
bool SharedTier::try_next_address(RingPeer& peer) {
  peer.address_at = (peer.address_at + 1) % peer.addresses.size();
  return peer.address_at != 0;
}

// Says what this node was named, and looks what the others say.
void SharedTier::compare_lists() {
  const Ring now = ring();
  for (const Peer& peer : now->peers()) {
    if (peer->is_down()) continue;
    is_own(*peer) ? state_list(now, peer) : ask_for_list(now, peer);
  }
}

void SharedTier::state_list(const Ring& ring, const Peer& own) {
  constexpr unsigned kSecondsToLiveOfList = 120;  // a node that has ended is forgotten after a few rounds
  auto said = std::make_shared<StatementBytes>(as_bytes(ring->statement()));
  auto request = std::make_unique<PeerRequest>();
  request->kind = PeerRequest::Kind::kPut;
  request->key = statement_key(data_set_, own->name);
  request->payload = *said;
  request->header = make_header(request->key, request->payload);
  request->seconds_to_live = kSecondsToLiveOfList;
  request->done = [said](Outcome) {};
  start({own, Lane::kPut, false, std::move(request)});
}

void SharedTier::ask_for_list(const Ring& ring, const Peer& peer) {
  auto said = std::make_shared<StatementBytes>();
  auto request = std::make_unique<PeerRequest>();
  request->kind = PeerRequest::Kind::kGet;
  request->key = statement_key(data_set_, peer->name);
  request->payload = *said;
  request->renews = false;  // what a node has said that is gone ends
  request->done = [said, own = ring->statement(), &peer = *peer](Outcome outcome) {
    if (outcome == Outcome::kFailed) return;  // it may say so another time
    const Agreement found = outcome == Outcome::kDone ? compare(own, statement_from(*said)) : Agreement::kNotKnown;
    if (peer.agreement.exchange(found) == found || found == Agreement::kNotKnown) return;
    if (found == Agreement::kSame) return io::log_info("peer {}: was named the same peers", peer.name);
    io::log_warning("peer {}: {}; what only one of the two looks for there is read from the source again", peer.name,
                    found == Agreement::kOtherPeers ? "was named other peers, or another --share"
                                                    : "has listed other files of the data set");
  };
  start({peer, Lane::kGet, false, std::move(request)});
}

std::vector<PeerStats> SharedTier::peer_stats() const {
  std::vector<PeerStats> all;
  const Ring now = ring();
  for (std::size_t i = 0; i < now->peers().size(); ++i) {
    const RingPeer& peer = *now->peers()[i];
    PeerStats& stats = all.emplace_back();
    stats.name = peer.name;
    stats.state = peer.figures->is_full() ? "full" : "ok";
    if (peer.is_down()) stats.state = "down: " + peer.reason();
    stats.samples = now->placed(i).files;
    stats.bytes = now->placed(i).bytes;
    stats.list = is_own(peer) ? name_of(Agreement::kSame) : name_of(peer.agreement.load());
    peer.figures->add_to(stats);
  }
  return all;
}

SharedTier::Served SharedTier::served() const {
  PeerStats all;
  figures_.add_to(all);
  const std::uint64_t own = own_hits_.load(std::memory_order_relaxed);
  return {.by_own = own, .by_others = all.hits - std::min(own, all.hits)};
}

TierStats SharedTier::stats() const {
  const std::vector<PeerStats> peers = peer_stats();
  PeerStats all;
  figures_.add_to(all);
  TierStats stats;
  stats.kind = TierKind::kShared;
  stats.budget_bytes = bytes_per_peer_ * peers.size();
  stats.placement = fmt::format("{} peers hold what hashing gives them", peers.size());
  stats.hits = all.hits;
  stats.hit_bytes = all.hit_bytes;
  stats.writes = all.writes;
  stats.write_bytes = all.write_bytes;
  stats.errors = all.errors;
  stats.corrupt = all.corrupt;
  bool full = false;
  for (const PeerStats& peer : peers) {
    stats.samples += peer.samples;
    stats.used_bytes += peer.bytes;
    stats.path += (stats.path.empty() ? "" : ",") + peer.name;
    full = full || peer.state == "full";
    if (!peer.state.starts_with("down")) continue;
    stats.state += fmt::format("{}{} is {}", stats.state.empty() ? "" : "; ", peer.name, peer.state);
  }
  if (stats.state.empty()) stats.state = full ? "full" : "ok";
  return stats;
}

}  // namespace headrace::cache
