// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/fetch.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "headrace/cache/store/confirm.h"
#include "headrace/cache/store/move.h"

namespace headrace::cache {
namespace {

using io::Error;

bool is_for_fill(const ChunkRequest& request) {
  return request.for_disk_fill || request.for_peer_fill;
}

Move::Cargo cargo_of(const Identity& identity, std::uint32_t chunk) {
  const ChunkRange range = chunk_range(identity.size_bytes, chunk);
  return {identity, range, footprint_bytes(range.length)};
}

// One chunk on its way into memory, for all that want it.
class Fetch final : public Move {
 public:
  // `holding` is claimed, with the fetch's pin.
  Fetch(StoreParts& store, Holding& holding, const Identity& identity, const ChunkRequest& request)
      : Move(store, holding, cargo_of(identity, request.key.chunk), request.hint), request_(request) {}
  void start();

 private:
  void ask_first() override;
  void confirm_first();
  void ask_beyond_tiers() override;
  [[nodiscard]] bool ask_peers();
  void copy(TierKind from) override;
  void copy_to_peer();
  [[nodiscard]] std::uint64_t share_behind_bytes() const;
  void on_failure(const Error& error) override;
  void read_anew(const Error& error);

  const ChunkRequest request_;  // of the reader that began the fetch
  SharedGet shared_get_;
};

void Fetch::start() {
  if (request_.memory == FetchMemory::kInLine) return store_.memory.request(*this);
  if (bytes() <= request_.memory_bytes) return begin();
  fail(changed_meanwhile(store_, entry()));
}

void Fetch::ask_first() {
  if (!store_.tiers.empty()) disk_read_.record = {hash_name(path_, request_.key.chunk), request_.key.chunk, identity_};
  if (store_.identities.is_confirmed(entry())) return ask_tiers();
  if (store_.held_on_disk(disk_read_.record) || store_.is_shared(entry())) return confirm_first();
  skip_tiers();  // a record that comes along with a tier from now on is not confirmed either
}

// The record may be of what was in the file before.
void Fetch::confirm_first() {
  const bool here = std::this_thread::get_id() == waits_here_;
  confirm(store_, entry(), identity_, here, [this](Status status) {
    if (!status) return on_failure(status.error());
    if (store_.closing.load()) return fail(cancelled());
    ask_tiers();
  });
}

// Each chunk of a large file opens it anew (`keep` is not set): the kernel reads ahead by open file. Chunks that share
// one get 128 KiB of a FUSE file system at a time: a model's shards then take twice as long, from 5 ms away.
void Fetch::ask_beyond_tiers() {
  if (!ask_peers()) read_source();
}

// Where several nodes share what they hold, the source is the last to be asked.
bool Fetch::ask_peers() {
  if (range_.length == 0 || !store_.is_shared(entry())) return false;
  shared_get_.id = {entry(), request_.key.chunk, identity_};
  shared_get_.buffer = std::move(buffer_);
  shared_get_.payload_bytes = range_.length;
  shared_get_.context = this;
  shared_get_.is_urgent = [](const SharedGet& get) { return !static_cast<const Fetch*>(get.context)->ahead(); };
  shared_get_.on_done = [](SharedGet& get, bool hit) {
    Fetch& self = *static_cast<Fetch*>(get.context);
    self.buffer_ = std::move(get.buffer);
    if (hit) return self.finish(self.buffer_.data(), TierKind::kShared);
    if (self.store_.closing.load()) return self.fail(self.cancelled());
    self.read_source();
  };
  if (store_.shared->get(shared_get_)) return true;
  buffer_ = std::move(shared_get_.buffer);
  return false;
}

void Fetch::copy(TierKind from) {
  if (store_.peer_takes(entry())) {
    if (from == TierKind::kSource && !request_.for_peer_fill) copy_to_peer();
  } else if (!request_.for_disk_fill && !holding_.lent) {
    store_.copy_to_tier(holding_, disk_read_.record, next_tier_);
  }
}

// The node that reads a file first gives it to the peer that is to hold it. Its own disk tiers hold what no peer does,
// and what a peer cannot take.
void Fetch::copy_to_peer() {
  if (store_.closing.load() || holding_.lent) return;
  if (store_.shared->pending_bytes() + holding_.cost_bytes > share_behind_bytes()) return;
  if (!store_.ram.pin_for_write(holding_)) return;
  store_.share(holding_, {entry(), request_.key.chunk, identity_}, {});
}

// More than for a disk: a copy that is left out costs another node a read of the source. Reads may have to wait for the
// memory, but never for long, because a peer that takes nothing is given up.
std::uint64_t Fetch::share_behind_bytes() const {
  const std::uint64_t budget = store_.ram.budget_bytes();
  return budget > 0 ? std::min(kWriteBehindBytesMax, budget / 4 * 3) : kWriteBehindBytesMax;
}

// A version that is cut into chunks in another way is of no use for a reader of this chunk.
void Fetch::on_failure(const Error& error) {
  const std::optional<Identity> now = version_anew(error, request_.attempts_left);
  const bool has_chunk = now && is_chunked(now->size_bytes) == is_chunked(identity_.size_bytes) &&
                         request_.key.chunk < chunk_count(now->size_bytes);
  has_chunk ? read_anew(error) : fail(error);
}

// The readers get the same part of the file as it is now. One that holds memory must not wait in line for more: it gets
// the error, gives its memory back and begins anew by itself.
void Fetch::read_anew(const Error& error) {
  ChunkRequest request = request_;
  request.attempts_left -= 1;
  request.memory = FetchMemory::kInLine;
  request.memory_bytes = 0;
  const auto self = store_.mover.take(*this);  // from now on nobody else hurries it
  request.hint = hint_by_now();
  Waiter* waiters = give_up();
  while (waiters != nullptr) {
    const std::unique_ptr<Waiter> waiter(std::exchange(waiters, waiters->next));
    request.offset = waiter->offset;
    request.length = waiter->length;
    if (!waiter->may_wait) {
      waiter->done(tl::unexpected<Error>(error));
      continue;
    }
    read_chunk(store_, request, std::move(waiter->done));
  }
}

// The identity is looked up now that the holding can be found: a change that comes later finds and forgets it.
void start_fetch(StoreParts& store, Holding& holding, const ChunkRequest& request) {
  const Result<Identity> identity = store.identities.of_file(request.key.entry);
  Fetch& fetch = store.mover.add(std::make_unique<Fetch>(store, holding, identity.value_or(Identity{}), request));
  if (!identity) return fetch.denied(identity.error());
  const bool has_chunk =
      is_chunked(identity->size_bytes) == request.is_cut && request.key.chunk < chunk_count(identity->size_bytes);
  if (!has_chunk) return fetch.denied(changed_meanwhile(store, request.key.entry));
  if (store.follower->watches() && request.key.chunk == 0 && !is_for_fill(request)) {
    store.follower->note_use(request.key.entry);
  }
  fetch.start();
}

// A read that needs no fetch. With a RAM budget the chunk was mostly fetched ahead, and that fetch was counted. Without
// one, memory has a chunk only while others read or write it. With a slow disk this happens often, and a use that is
// not counted would look as if it were still to come.
void note_use_in_memory(StoreParts& store, const ChunkRequest& request) {
  const bool is_use = request.key.chunk == 0 && !is_ahead(request.hint) && !is_for_fill(request);
  if (is_use && store.ram.budget_bytes() == 0 && store.follower->watches()) {
    store.follower->note_use(request.key.entry);
  }
}

std::unique_ptr<Holding> make_holding(StoreParts& store, const ChunkRequest& request) {
  auto fresh = std::make_unique<Holding>(store.ram, request.key);
  fresh->keep = request.hint == ReadHint::kAheadAndKeep;
  fresh->ranged = request.ranged;
  fresh->wanted_now = !is_ahead(request.hint);
  fresh->has_memory = request.memory != FetchMemory::kInLine;
  fresh->lent = request.memory == FetchMemory::kLent;
  if (request.memory == FetchMemory::kReserved) fresh->cost_bytes = request.memory_bytes;
  return fresh;
}

// No fetch is needed.
void give_back(StoreParts& store, const ChunkRequest& request) {
  if (request.memory == FetchMemory::kReserved) store.ram.unreserve(request.memory_bytes);
}

}  // namespace

std::optional<View> read_from_memory(StoreParts& store, const ChunkRequest& request) {
  Holding* const held = store.ram.pin(request.key, request.hint == ReadHint::kAheadAndKeep);
  if (held == nullptr) return std::nullopt;
  if (is_chunked(held->identity.size_bytes) != request.is_cut) {
    store.ram.unpin(*held);
    return std::nullopt;
  }
  note_use_in_memory(store, request);
  return held->view(TierKind::kRam, request.offset, request.length);
}

void hurry_move(StoreParts& store, const RamTier::Wanted& move) {
  if (!move.is_first) return;
  if (move.in_line) store.memory.hurry();
  for (const auto& tier : store.tiers) tier->hurry();
  if (move.ahead != nullptr) store.source->hurry(move.ahead);
}

void read_chunk(StoreParts& store, const ChunkRequest& request, ReadCallback done) {
  if (auto held = read_from_memory(store, request)) {
    give_back(store, request);
    return done(std::move(*held));
  }
  auto fresh = make_holding(store, request);
  auto waiter = std::make_unique<Waiter>();
  waiter->offset = request.offset;
  waiter->length = request.length;
  waiter->is_cut = request.is_cut;
  waiter->may_wait = request.memory == FetchMemory::kInLine;
  waiter->done = std::move(done);

  const RamTier::Claim claim = store.ram.claim(std::move(fresh), *waiter);
  switch (claim.outcome) {
    case RamTier::Claim::Outcome::kReady:
      give_back(store, request);
      note_use_in_memory(store, request);
      return waiter->done(view_of(store, *claim.holding, TierKind::kRam, *waiter));
    case RamTier::Claim::Outcome::kWaiting:
      static_cast<void>(waiter.release());  // the fetch answers it
      give_back(store, request);
      hurry_move(store, claim);
      store.shared_fetches.fetch_add(1, std::memory_order_relaxed);
      note_use_in_memory(store, request);
      return;
    case RamTier::Claim::Outcome::kOwner:
      static_cast<void>(waiter.release());
      return start_fetch(store, *claim.holding, request);
  }
}

}  // namespace headrace::cache
