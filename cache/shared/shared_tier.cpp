// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared/shared_tier.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <xxhash.h>

#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;
using io::make_error;
using io::MutexLock;
using std::chrono::milliseconds;

// A peer in the same room answers within a millisecond. One that moves no byte for so long hangs; the source answers
// sooner.
constexpr milliseconds kSilenceMax{200};
// A peer that moves bytes, but has so much to move that a request takes so long, is of no help either.
constexpr milliseconds kAnswerMax{2000};
constexpr std::chrono::seconds kDownFor{1};

std::int64_t ticks(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

Result<std::unique_ptr<SharedTier>> SharedTier::open(const SharedTierOptions& options, std::string data_set,
                                                     const Catalog& catalog, RamTier& ram) {
  if (options.bytes_per_peer == 0) {
    return make_error(ErrorCode::kInvalidArgument, "peers: how much memory does each share? Give a size");
  }
  std::unique_ptr<SharedTier> tier(new SharedTier(options, std::move(data_set), catalog, ram));
  if (!tier->wake_fd_.valid()) return io::system_error(errno, "eventfd");
  HEADRACE_TRY_DO(tier->find_peers(options.peers));
  tier->place_files();
  tier->thread_ = std::thread([&self = *tier] {
    ::pthread_setname_np(::pthread_self(), "hr-peers");
    self.run();
  });
  return tier;
}

SharedTier::SharedTier(const SharedTierOptions& options, std::string data_set, const Catalog& catalog, RamTier& ram)
    : data_set_(std::move(data_set)),
      catalog_(catalog),
      ram_(ram),
      bytes_per_peer_(options.bytes_per_peer),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

SharedTier::~SharedTier() {
  join();
}

Status SharedTier::find_peers(const std::vector<std::string>& names) {
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("peer '{}' is named twice", *twice));
  }
  if (sorted.size() > kPeersMax) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} peers are named; at most {} can share", sorted.size(), kPeersMax));
  }
  MutexLock lock(mutex_);
  reasons_.resize(sorted.size());
  for (const std::string& name : sorted) {
    Peer& peer = peers_.emplace_back();
    peer.name = name;
    peer.index = static_cast<PeerIndex>(peers_.size() - 1);
    Result<PeerAddress> address = resolve_peer(name);
    if (address) {
      peer.address = *address;
      continue;
    }
    if (address.error().code != ErrorCode::kNotFound) return io::forward_error(std::move(address));
    io::log_warning("{}; its files are read from the source", address.error().message());
    reasons_[peer.index] = address.error().message();
  }
  return {};
}

void SharedTier::place_files() {
  std::vector<std::string> names;
  for (const Peer& peer : peers_) names.push_back(peer.name);
  const std::uint64_t seed = XXH3_64bits(data_set_.data(), data_set_.size());
  std::vector<PlacedFile> files;
  std::vector<EntryId> entries;
  for (EntryId entry = 0; entry < catalog_.entry_count(); ++entry) {
    if (!catalog_.is_file(entry) || catalog_.size_bytes(entry) == 0) continue;
    const std::string path = catalog_.path(entry);
    files.push_back({XXH3_64bits_withSeed(path.data(), path.size(), seed), catalog_.size_bytes(entry)});
    entries.push_back(entry);
  }
  const std::vector<PeerIndex> owners = place_on_peers(files, names, bytes_per_peer_);
  owners_.assign(catalog_.entry_count(), kNoPeer);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    owners_[entries[i]] = owners[i];
    if (owners[i] == kNoPeer) continue;
    placed_files_ += 1;
    placed_bytes_ += files[i].bytes;
  }
}

SharedKey SharedTier::key_of(const SharedId& id) const {
  return shared_key(data_set_, catalog_.path(id.entry), id.chunk, id.identity);
}

bool SharedTier::is_down(const Peer& peer) const {
  return !peer.address || peer.down_until_ns.load(std::memory_order_relaxed) != 0;
}

SharedTier::Ask SharedTier::may_ask(Peer& peer) const {
  if (!peer.address) return Ask::kNo;
  std::int64_t until = peer.down_until_ns.load(std::memory_order_relaxed);
  if (until == 0) return Ask::kYes;
  const Clock::time_point now = Clock::now();
  if (ticks(now) < until) return Ask::kNo;
  const bool first = peer.down_until_ns.compare_exchange_strong(until, ticks(now + kDownFor));
  return first ? Ask::kToFindOut : Ask::kNo;
}

// An answer of whatever kind says that the peer is there.
void SharedTier::note(Peer& peer, Outcome outcome) {
  if (outcome == Outcome::kFailed) {
    errors_.fetch_add(1, std::memory_order_relaxed);
  } else if (peer.down_until_ns.load(std::memory_order_relaxed) != 0) {
    peer.down_until_ns.store(0, std::memory_order_relaxed);
    io::log_info("peer {}: it answers again", peer.name);
  }
}

bool SharedTier::submit(Submission submission) {
  submission.request->submitted = Clock::now();
  MutexLock lock(mutex_);
  if (closed_) return false;
  submitted_.push_back(std::move(submission));
  lock.unlock();
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof one);  // full: it is awake anyway
  return true;
}

bool SharedTier::get(SharedGet& request) {
  const PeerIndex peer = owners_[request.id.entry];
  if (peer == kNoPeer) return false;
  const Ask ask = may_ask(peers_[peer]);
  if (ask == Ask::kNo) return false;
  auto wanted = std::make_unique<PeerRequest>();
  wanted->kind = PeerRequest::Kind::kGet;
  wanted->key = key_of(request.id);
  wanted->payload = {request.buffer.data(), request.payload_bytes};
  wanted->done = [this, &request, peer](Outcome outcome) { on_got(request, peer, outcome); };
  return submit({peer, Lane::kGet, ask == Ask::kToFindOut, std::move(wanted)});
}

void SharedTier::on_got(SharedGet& request, PeerIndex peer, Outcome outcome) {
  const bool hit = outcome == Outcome::kDone;
  note(peers_[peer], outcome);
  if (hit) {
    hits_.fetch_add(1, std::memory_order_relaxed);
    hit_bytes_.fetch_add(request.payload_bytes, std::memory_order_relaxed);
    request.buffer.set_size(request.payload_bytes);
  }
  if (outcome == Outcome::kWrong) corrupt_.fetch_add(1, std::memory_order_relaxed);  // it is stored anew
  request.on_done(request, hit);
}

void SharedTier::put(Holding& holding, const SharedId& id, std::function<void()> done) {
  const PeerIndex peer = owners_[id.entry];
  const std::uint64_t bytes = holding.size;
  auto stored = std::make_unique<PeerRequest>();
  stored->kind = PeerRequest::Kind::kPut;
  stored->key = key_of(id);
  stored->payload = {holding.data, bytes};
  pending_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  auto end = [this, &holding, bytes, peer, done = std::move(done)](Outcome outcome) {
    note(peers_[peer], outcome);
    if (outcome == Outcome::kDone) {
      writes_.fetch_add(1, std::memory_order_relaxed);
      write_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    }
    full_.store(outcome == Outcome::kFull, std::memory_order_relaxed);
    pending_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    ram_.unpin_written(holding);
    done();
  };
  const Ask ask = may_ask(peers_[peer]);
  if (ask == Ask::kNo) return end(Outcome::kFailed);
  stored->header = make_header(stored->key, stored->payload);
  stored->done = end;
  if (!submit({peer, Lane::kPut, ask == Ask::kToFindOut, std::move(stored)})) end(Outcome::kFailed);
}

void SharedTier::join() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof one);
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
  }
  for (Peer& peer : peers_) {
    for (auto& lane : peer.lanes) lane.reset();  // ends what it has as failed
  }
}

void SharedTier::start_submitted() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_fd_.get(), &count, sizeof count);  // nothing there: nobody called
  std::vector<Submission> submitted;
  {
    MutexLock lock(mutex_);
    submitted.swap(submitted_);
  }
  for (Submission& it : submitted) {
    Peer& peer = peers_[it.peer];
    if (is_down(peer) && !it.finds_out) {
      it.request->done(Outcome::kFailed);
      continue;
    }
    auto& lane = peer.lanes[static_cast<std::size_t>(it.lane)];
    if (!lane) lane = std::make_unique<PeerConnection>(*peer.address);
    lane->submit(std::move(it.request));
    if (!lane->advance()) break_off(peer, lane->error());
  }
}

void SharedTier::wait_for_sockets() {
  std::vector<pollfd> sockets = {{.fd = wake_fd_.get(), .events = POLLIN, .revents = 0}};
  std::vector<std::pair<Peer*, PeerConnection*>> owners = {{nullptr, nullptr}};
  for (Peer& peer : peers_) {
    for (auto& lane : peer.lanes) {
      if (!lane) continue;
      const short events = static_cast<short>(POLLIN | (lane->wants_to_send() ? POLLOUT : 0));
      sockets.push_back({.fd = lane->fd(), .events = events, .revents = 0});
      owners.emplace_back(&peer, lane.get());
    }
  }
  const Clock::time_point look = next_look();
  int timeout = -1;
  if (look != Clock::time_point::max()) {
    const auto left = std::chrono::ceil<milliseconds>(look - Clock::now()).count();
    timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, kAnswerMax.count()));
  }
  if (::poll(sockets.data(), sockets.size(), timeout) <= 0) return;
  for (std::size_t i = 1; i < sockets.size(); ++i) {
    auto [peer, lane] = owners[i];
    const bool open = lane == peer->lanes[0].get() || lane == peer->lanes[1].get();  // the other one may have broken
    if (sockets[i].revents != 0 && open && !lane->advance()) break_off(*peer, lane->error());
  }
}

SharedTier::Clock::time_point SharedTier::next_look() const {
  Clock::time_point next = Clock::time_point::max();
  for (const Peer& peer : peers_) {
    for (const auto& lane : peer.lanes) {
      if (!lane || lane->idle()) continue;
      next = std::min({next, lane->silent_since() + kSilenceMax, lane->oldest() + kAnswerMax});
    }
  }
  return next;
}

void SharedTier::end_late() {
  const Clock::time_point now = Clock::now();
  for (Peer& peer : peers_) {
    for (auto& lane : peer.lanes) {
      if (!lane || lane->idle()) continue;
      if (lane->silent_since() + kSilenceMax <= now) {
        break_off(peer, fmt::format("it has been silent for {} ms", kSilenceMax.count()));
      } else if (lane->oldest() + kAnswerMax <= now) {
        break_off(peer, fmt::format("it takes over {} s to answer", kAnswerMax.count() / 1000));
      }
    }
  }
}

// What was in flight ends as failed. That begins reads of the source, on this thread, which do not wait.
void SharedTier::break_off(Peer& peer, const std::string& reason) {
  bool is_new = false;
  {
    MutexLock lock(mutex_);
    is_new = std::exchange(reasons_[peer.index], reason) != reason;
  }
  if (is_new) io::log_warning("peer {}: {}; its files are read from the source", peer.name, reason);
  peer.down_until_ns.store(ticks(Clock::now() + kDownFor), std::memory_order_relaxed);
  for (auto& lane : peer.lanes) {
    const std::unique_ptr<PeerConnection> broken = std::move(lane);
  }
}

TierStats SharedTier::stats() const {
  TierStats stats;
  stats.kind = TierKind::kShared;
  stats.budget_bytes = bytes_per_peer_ * peers_.size();
  stats.hits = hits_.load(std::memory_order_relaxed);
  stats.hit_bytes = hit_bytes_.load(std::memory_order_relaxed);
  stats.writes = writes_.load(std::memory_order_relaxed);
  stats.write_bytes = write_bytes_.load(std::memory_order_relaxed);
  stats.errors = errors_.load(std::memory_order_relaxed);
  stats.corrupt = corrupt_.load(std::memory_order_relaxed);
  stats.samples = placed_files_;
  stats.used_bytes = placed_bytes_;
  stats.placement = fmt::format("{} peers hold what hashing gives them", peers_.size());
  MutexLock lock(mutex_);
  for (const Peer& peer : peers_) {
    stats.path += (peer.index > 0 ? "," : "") + peer.name;
    if (!is_down(peer)) continue;
    stats.state += fmt::format("{}{} is down: {}", stats.state.empty() ? "" : "; ", peer.name, reasons_[peer.index]);
  }
  if (stats.state.empty()) stats.state = full_.load(std::memory_order_relaxed) ? "full" : "ok";
  return stats;
}

}  // namespace headrace::cache
