// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/move.h"

#include <memory>
#include <utility>

namespace headrace::cache {

using io::Buffer;
using io::Error;

Error changed_meanwhile(const StoreParts& store, EntryId entry) {
  return {io::ErrorCode::kStale, 0, "read " + store.catalog.path(entry) + ": changed meanwhile"};
}

Result<View> view_of(StoreParts& store, Holding& holding, TierKind from, const Waiter& waiter) {
  if (is_chunked(holding.identity.size_bytes) == waiter.is_cut) {
    return holding.view(from, waiter.offset, waiter.length);
  }
  const EntryId entry = holding.key.entry;
  store.ram.unpin(holding);
  return tl::unexpected<Error>(changed_meanwhile(store, entry));
}

Holding& unlisted_holding(StoreParts& store, EntryId entry, ReadHint hint, Waiter waiter) {
  auto holding = std::make_unique<Holding>(store.ram, ChunkKey{entry, UINT32_MAX});
  holding->pins = 1;
  holding->wanted_now = !is_ahead(hint);
  holding->waiters = new Waiter(std::move(waiter));  // the move answers it
  return *holding.release();                         // the RAM tier's, until the last pin goes
}

Move::Move(StoreParts& store, Holding& holding, const Cargo& cargo, ReadHint hint)
    : MemoryRequest(cargo.memory_bytes + cargo.spare_bytes, is_ahead(hint)),
      UnderWay(holding.key.entry),
      store_(store),
      holding_(holding),
      identity_(cargo.identity),
      attributes_(store.identities.attributes(holding.key.entry)),
      hint_(hint),
      waits_here_(may_wait_here(hint) ? std::this_thread::get_id() : std::thread::id()),
      range_(cargo.range),
      buffer_bytes_(cargo.memory_bytes) {
  disk_read_.wanted = source_read_.wanted = &holding.wanted_now;
  disk_read_.context = source_read_.context = this;
  disk_read_.on_done = [](DiskRead& read, const Status& status) {
    static_cast<Move*>(read.context)->on_tier_answer(std::move(read.buffer), read.data, status);
  };
  source_read_.on_done = [](SourceRead& read, Status status) {
    Move& self = *static_cast<Move*>(read.context);
    self.buffer_ = std::move(read.buffer);
    status ? self.finish(read.data, TierKind::kSource) : self.on_failure(status.error());
  };
}

void Move::granted() {
  holding_.cost_bytes = buffer_bytes_;
  holding_.has_memory = true;
  begin();
}

RamTier::Wanted Move::want() {
  if (holding_.wanted_now.exchange(true)) return {};
  // A range alone keeps its place at the source: a pack has thousands on their way, and one of them is waited for.
  const bool is_range_alone = source_read_.keep != kNoEntry;
  return {.is_first = true,
          .in_line = !holding_.has_memory,
          .ahead = is_range_alone ? nullptr : holding_.source_read.load()};
}

void Move::begin() {
  begun_ = true;
  store_.memory.on_fetch_begun();
  auto buffer = Buffer::allocate(buffer_bytes_);
  if (!buffer) return on_failure(buffer.error());
  buffer_ = std::move(*buffer);
  path_ = store_.catalog.path(entry());
  ask_first();
}

void Move::ask_tiers() {
  while (next_tier_ < store_.tiers.size()) {
    if (ask(*store_.tiers[next_tier_++])) return;
  }
  skip_tiers();
}

void Move::skip_tiers() {
  next_tier_ = SIZE_MAX;
  ask_beyond_tiers();
}

bool Move::ask(DiskTier& tier) {
  disk_read_.buffer = std::move(buffer_);
  if (tier.read(disk_read_)) return true;
  buffer_ = std::move(disk_read_.buffer);
  return false;
}

void Move::on_tier_answer(Buffer buffer, std::byte* data, const Status& status) {
  buffer_ = std::move(buffer);
  if (status) {
    next_tier_ -= 1;  // this one needs no copy
    return finish(data, store_.tiers[next_tier_]->kind());
  }
  if (store_.closing.load()) return fail(status.error());
  ask_tiers();
}

void Move::read_source() {
  source_read_.path = path_.c_str();
  source_read_.range = range_;
  source_read_.here = std::this_thread::get_id() == waits_here_;  // false once memory or a tier had to be waited for
  holding_.source_read = &source_read_;  // first: who joins from now on hurries it, who joined before is seen here
  source_read_.ahead = ahead() && !source_read_.here;
  source_read_.identity = identity_;
  source_read_.buffer = std::move(buffer_);
  const bool is_whole = source_read_.keep == kNoEntry;
  if (is_whole && store_.source->read_now(source_read_)) {
    buffer_ = std::move(source_read_.buffer);
    return finish(source_read_.data, TierKind::kSource);
  }
  store_.source->read(source_read_);
}

void Move::finish(std::byte* data, TierKind from) {
  const auto self = store_.mover.take(*this);
  holding_.buffer = std::move(buffer_);
  holding_.data = data;
  holding_.size = range_.length;
  holding_.fetched_from = from;
  holding_.identity = identity_;
  if (from == TierKind::kSource) store_.identities.confirm(entry());
  store_.memory.on_fetch_ended();
  Waiter* waiters = store_.ram.publish(holding_);
  if (range_.length > 0) copy(from);  // an empty file is compared with the source, and nothing of it is kept
  store_.ram.unpin(holding_);         // each waiter has a pin of its own: what they let go of is free at once
  while (waiters != nullptr) {
    const std::unique_ptr<Waiter> waiter(std::exchange(waiters, waiters->next));
    waiter->done(view_of(store_, holding_, from, *waiter));
  }
}

void Move::fail(const Error& error) {
  const auto self = store_.mover.take(*this);
  Waiter* waiters = give_up();
  while (waiters != nullptr) {
    const std::unique_ptr<Waiter> waiter(std::exchange(waiters, waiters->next));
    if (waiter->may_wait) store_.failures.fetch_add(1, std::memory_order_relaxed);  // others are parts of a read
    waiter->done(tl::unexpected<Error>(error));
  }
}

Waiter* Move::give_up() {
  if (begun_) store_.memory.on_fetch_ended();
  buffer_.reset();  // freed before its bytes are given back
  Waiter* waiters = store_.ram.abandon(holding_);
  store_.ram.unpin(holding_);
  return waiters;
}

std::optional<Identity> Move::version_anew(const Error& error, unsigned attempts_left) {
  if (!is_other_version(error) || !see_file_anew()) return std::nullopt;
  return store_.version_anew(entry(), attributes_, attempts_left);
}

bool Move::see_file_anew() {
  return store_.look_at(entry(), identity_).has_value();
}

// This may be a thread that must not wait, and somebody may have joined a read ahead.
ReadHint Move::hint_by_now() const {
  if (hint_ == ReadHint::kNowHere || holding_.wanted_now) return ReadHint::kNow;
  return hint_ == ReadHint::kAheadHere ? ReadHint::kAhead : hint_;
}

}  // namespace headrace::cache
