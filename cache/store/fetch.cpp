// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/fetch.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "headrace/cache/read_rights.h"
#include "headrace/cache/source/source.h"
#include "headrace/cache/store/confirm.h"

namespace headrace::cache {
namespace {

using io::Buffer;
using io::Error;

bool is_for_fill(const ChunkRequest& request) {
  return request.for_disk_fill || request.for_peer_fill;
}

Error changed_meanwhile(const StoreParts& store, EntryId entry) {
  return {io::ErrorCode::kStale, 0, "read " + store.catalog.path(entry) + ": changed meanwhile"};
}

bool is_of(const Holding& holding, bool is_cut) {
  return is_chunked(holding.identity.size_bytes) == is_cut;
}

// Takes over a pin.
Result<View> view_of(StoreParts& store, Holding& holding, TierKind from, const Waiter& waiter) {
  if (is_of(holding, waiter.is_cut)) return holding.view(from, waiter.offset, waiter.length);
  const EntryId entry = holding.key.entry;
  store.ram.unpin(holding);
  return tl::unexpected<Error>(changed_meanwhile(store, entry));
}

void answer(StoreParts& store, Waiter* waiters, Holding& holding, TierKind from) {
  while (waiters != nullptr) {
    const std::unique_ptr<Waiter> waiter(std::exchange(waiters, waiters->next));
    waiter->done(view_of(store, holding, from, *waiter));
  }
}

// One chunk on its way into memory: a part of the budget, then the fastest tier that holds it, then the source.
// Ownership: its own; deletes itself once the waiters are answered.
// Thread-safety: one step at a time, each on the thread where the step before completed.
class Fetch final : public MemoryRequest {
 public:
  // `holding` is claimed, with the fetch's pin.
  Fetch(StoreParts& store, Holding& holding, const Identity& identity, const ChunkRequest& request)
      : MemoryRequest(footprint_bytes(chunk_range(identity.size_bytes, holding.key.chunk).length),
                      is_ahead(request.hint)),
        store_(store),
        holding_(holding),
        identity_(identity),
        attributes_(store.identities.attributes(holding.key.entry)),
        request_(request),
        waits_here_(may_wait_here(request.hint) ? std::this_thread::get_id() : std::thread::id()),
        range_(chunk_range(identity.size_bytes, holding.key.chunk)) {}
  void start(const ChunkRequest& request);

  [[nodiscard]] bool ahead() const override { return !holding_.wanted_now; }
  void granted() override;
  void denied(Error error) override { fail(error); }

 private:
  void begin();
  void confirm_first();
  void read_next_tier();
  void on_tier_read(Status status);
  [[nodiscard]] bool ask_peers();
  void read_source();
  void on_source_failure(const Error& error);
  void finish(Buffer buffer, std::byte* data, TierKind from);
  void copy(TierKind from);
  void copy_to_peer();
  [[nodiscard]] std::uint64_t share_behind_bytes() const;
  void fail(const Error& error);
  [[nodiscard]] bool look_again();
  void read_anew(const Error& error);
  // The readers that wait; the holding and its memory are given back.
  [[nodiscard]] Waiter* give_up();

  StoreParts& store_;
  Holding& holding_;
  const Identity identity_;
  const AttributeClass attributes_;   // when the fetch began: its readers may have been let in by these
  const ChunkRequest request_;        // of the reader that began the fetch
  const std::thread::id waits_here_;  // the thread that may wait for the source; none: nobody may
  const ChunkRange range_;
  bool begun_ = false;  // it has its memory
  std::string path_;
  RecordId record_;
  std::size_t next_tier_ = 0;  // the first that was not asked; those before it may take a copy
  DiskRead disk_read_;
  bool peers_asked_ = false;
  SharedGet shared_get_;
  SourceRead source_read_;
};

void Fetch::start(const ChunkRequest& request) {
  if (request.memory == FetchMemory::kInLine) return store_.memory.request(*this);
  if (bytes() <= request.memory_bytes) return begin();
  fail(changed_meanwhile(store_, holding_.key.entry));
}

void Fetch::granted() {
  holding_.cost_bytes = bytes();
  holding_.has_memory = true;
  begin();
}

void Fetch::begin() {
  begun_ = true;
  store_.memory.on_fetch_begun();
  auto buffer = Buffer::allocate(bytes());
  if (!buffer) return fail(buffer.error());
  path_ = store_.catalog.path(holding_.key.entry);
  if (!store_.tiers.empty()) record_ = {hash_name(path_, holding_.key.chunk), holding_.key.chunk, identity_};
  disk_read_.buffer = std::move(*buffer);
  if (store_.identities.is_confirmed(holding_.key.entry)) return read_next_tier();
  if (store_.held_on_disk(record_) || store_.is_shared(holding_.key.entry)) return confirm_first();
  next_tier_ = store_.tiers.size();  // a record that comes along with a tier from now on is not confirmed either
  read_next_tier();
}

// The record may be of what was in the file before.
void Fetch::confirm_first() {
  const bool here = std::this_thread::get_id() == waits_here_;
  confirm(store_, holding_.key.entry, identity_, here, [this](Status status) {
    if (!status) return on_source_failure(status.error());
    if (store_.closing.load()) return fail({io::ErrorCode::kCancelled, 0, "read " + path_});
    read_next_tier();
  });
}

void Fetch::read_next_tier() {
  disk_read_.record = record_;
  disk_read_.wanted = &holding_.wanted_now;
  disk_read_.context = this;
  disk_read_.on_done = [](DiskRead& read, Status status) {
    static_cast<Fetch*>(read.context)->on_tier_read(std::move(status));
  };
  while (next_tier_ < store_.tiers.size()) {
    if (store_.tiers[next_tier_++]->read(disk_read_)) return;
  }
  next_tier_ = SIZE_MAX;
  if (!ask_peers()) read_source();
}

// Where several nodes share what they hold, the source is the last to be asked.
bool Fetch::ask_peers() {
  if (peers_asked_ || range_.length == 0 || !store_.is_shared(holding_.key.entry)) return false;
  peers_asked_ = true;
  shared_get_.id = {holding_.key.entry, holding_.key.chunk, identity_};
  shared_get_.buffer = std::move(disk_read_.buffer);
  shared_get_.payload_bytes = range_.length;
  shared_get_.context = this;
  shared_get_.is_urgent = [](const SharedGet& get) { return !static_cast<const Fetch*>(get.context)->ahead(); };
  shared_get_.on_done = [](SharedGet& get, bool hit) {
    Fetch& self = *static_cast<Fetch*>(get.context);
    if (hit) {
      std::byte* data = get.buffer.data();
      return self.finish(std::move(get.buffer), data, TierKind::kShared);
    }
    self.disk_read_.buffer = std::move(get.buffer);
    if (self.store_.closing.load()) return self.fail({io::ErrorCode::kCancelled, 0, "read " + self.path_});
    self.read_source();
  };
  if (store_.shared->get(shared_get_)) return true;
  disk_read_.buffer = std::move(shared_get_.buffer);
  return false;
}

void Fetch::on_tier_read(Status status) {
  if (status) {
    next_tier_ -= 1;  // this one needs no copy
    return finish(std::move(disk_read_.buffer), disk_read_.data, store_.tiers[next_tier_]->kind());
  }
  if (store_.closing.load()) return fail(status.error());
  read_next_tier();
}

void Fetch::read_source() {
  source_read_.path = path_.c_str();
  source_read_.range = range_;
  source_read_.here = std::this_thread::get_id() == waits_here_;  // false once memory or a tier had to be waited for
  holding_.source_read = &source_read_;  // first: who joins from now on hurries it, who joined before is seen here
  source_read_.ahead = ahead() && !source_read_.here;
  source_read_.wanted = &holding_.wanted_now;
  source_read_.identity = identity_;
  source_read_.buffer = std::move(disk_read_.buffer);
  // Each chunk of a large file opens it anew (`keep` is not set): the kernel reads ahead by open file. Chunks that
  // share one get 128 KiB of a FUSE file system at a time: a model's shards then take twice as long, from 5 ms away.
  if (store_.source->read_now(source_read_)) {
    return finish(std::move(source_read_.buffer), source_read_.data, TierKind::kSource);
  }
  source_read_.context = this;
  source_read_.on_done = [](SourceRead& read, Status status) {
    Fetch& self = *static_cast<Fetch*>(read.context);
    if (!status) return self.on_source_failure(status.error());
    self.finish(std::move(read.buffer), read.data, TierKind::kSource);
  };
  store_.source->read(source_read_);
}

void Fetch::finish(Buffer buffer, std::byte* data, TierKind from) {
  holding_.buffer = std::move(buffer);
  holding_.data = data;
  holding_.size = range_.length;
  holding_.fetched_from = from;
  holding_.identity = identity_;
  if (from == TierKind::kSource) store_.identities.confirm(holding_.key.entry);
  store_.memory.on_fetch_ended();
  Waiter* waiters = store_.ram.publish(holding_);
  if (range_.length > 0) copy(from);  // an empty file is compared with the source, and nothing of it is kept
  store_.ram.unpin(holding_);         // each waiter has a pin of its own: what they let go of is free at once
  answer(store_, waiters, holding_, from);
  delete this;
}

void Fetch::copy(TierKind from) {
  if (store_.peer_takes(holding_.key.entry)) {
    if (from == TierKind::kSource && !request_.for_peer_fill) copy_to_peer();
  } else if (!request_.for_disk_fill && !holding_.lent) {
    store_.copy_to_tier(holding_, record_, next_tier_);
  }
}

// The node that reads a file first gives it to the peer that is to hold it. Its own disk tiers hold what no peer does,
// and what a peer cannot take.
void Fetch::copy_to_peer() {
  if (store_.closing.load() || holding_.lent) return;
  if (store_.shared->pending_bytes() + holding_.cost_bytes > share_behind_bytes()) return;
  if (!store_.ram.pin_for_write(holding_)) return;
  store_.share(holding_, {holding_.key.entry, holding_.key.chunk, identity_}, {});
}

// More than for a disk: a copy that is left out costs another node a read of the source. Reads may have to wait for the
// memory, but never for long, because a peer that takes nothing is given up.
std::uint64_t Fetch::share_behind_bytes() const {
  const std::uint64_t budget = store_.ram.budget_bytes();
  return budget > 0 ? std::min(kWriteBehindBytesMax, budget / 4 * 3) : kWriteBehindBytesMax;
}

void Fetch::fail(const Error& error) {
  Waiter* waiters = give_up();
  while (waiters != nullptr) {
    const std::unique_ptr<Waiter> waiter(std::exchange(waiters, waiters->next));
    store_.failures.fetch_add(1, std::memory_order_relaxed);
    waiter->done(tl::unexpected<Error>(error));
  }
  delete this;
}

Waiter* Fetch::give_up() {
  if (begun_) store_.memory.on_fetch_ended();
  shared_get_.buffer.reset();  // freed before its bytes are given back
  source_read_.buffer.reset();
  disk_read_.buffer.reset();
  Waiter* waiters = store_.ram.abandon(holding_);
  store_.ram.unpin(holding_);
  return waiters;
}

void Fetch::on_source_failure(const Error& error) {
  if (!is_other_version(error)) return fail(error);
  const bool may_go_on = look_again() && request_.attempts_left > 0;
  if (!may_go_on || store_.closing.load()) return fail(error);
  read_anew(error);
}

// The file is not the version that was wanted. Looks what is at its path now. False: nothing that these readers may
// get, or that is cut into chunks in another way.
bool Fetch::look_again() {
  if (!store_.look_at(holding_.key.entry, identity_)) return false;
  if (!lets_in_all(store_.identities.attributes(holding_.key.entry), attributes_)) return false;
  const Result<Identity> now = store_.identities.of_file(holding_.key.entry);
  return now && is_chunked(now->size_bytes) == is_chunked(identity_.size_bytes) &&
         holding_.key.chunk < chunk_count(now->size_bytes);
}

// The readers get the same part of the file as it is now. One that holds memory must not wait in line for more: it gets
// the error, gives its memory back and begins anew by itself.
void Fetch::read_anew(const Error& error) {
  ChunkRequest request = request_;
  request.attempts_left -= 1;
  request.memory = FetchMemory::kInLine;
  request.memory_bytes = 0;
  // This may be a thread that must not wait; and somebody may have joined a read ahead.
  if (request.hint == ReadHint::kAheadHere) request.hint = ReadHint::kAhead;
  if (request.hint == ReadHint::kNowHere || holding_.wanted_now) request.hint = ReadHint::kNow;
  StoreParts& store = store_;
  Waiter* waiters = give_up();
  delete this;
  while (waiters != nullptr) {
    const std::unique_ptr<Waiter> waiter(std::exchange(waiters, waiters->next));
    request.offset = waiter->offset;
    request.length = waiter->length;
    if (!waiter->may_wait) {
      waiter->done(tl::unexpected<Error>(error));
      continue;
    }
    read_chunk(store, request, std::move(waiter->done));
  }
}

// The identity is looked up now that the holding can be found: a change that comes later finds and forgets it.
void start_fetch(StoreParts& store, Holding& holding, const ChunkRequest& request) {
  const Result<Identity> identity = store.identities.of_file(request.key.entry);
  auto* fetch = new Fetch(store, holding, identity.value_or(Identity{}), request);
  if (!identity) return fetch->denied(identity.error());
  const bool has_chunk =
      is_chunked(identity->size_bytes) == request.is_cut && request.key.chunk < chunk_count(identity->size_bytes);
  if (!has_chunk) return fetch->denied(changed_meanwhile(store, request.key.entry));
  if (store.follower->watches() && request.key.chunk == 0 && !is_for_fill(request)) {
    store.follower->note_use(request.key.entry);
  }
  fetch->start(request);
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
  if (!is_of(*held, request.is_cut)) {
    store.ram.unpin(*held);
    return std::nullopt;
  }
  note_use_in_memory(store, request);
  return held->view(TierKind::kRam, request.offset, request.length);
}

void hurry_fetch(StoreParts& store, const RamTier::Wanted& fetch) {
  if (!fetch.is_first) return;
  if (fetch.in_line) store.memory.hurry();
  for (const auto& tier : store.tiers) tier->hurry();
  if (fetch.ahead != nullptr) store.source->hurry(fetch.ahead);
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
      hurry_fetch(store, claim);
      store.shared_fetches.fetch_add(1, std::memory_order_relaxed);
      note_use_in_memory(store, request);
      return;
    case RamTier::Claim::Outcome::kOwner:
      static_cast<void>(waiter.release());
      return start_fetch(store, *claim.holding, request);
  }
}

}  // namespace headrace::cache
