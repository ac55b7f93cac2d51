// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/fetch.h"

#include <utility>

namespace headrace::cache {

using io::Buffer;
using io::Error;

Fetch::Fetch(StoreImpl& store, Holding& holding, const Identity& identity, const ChunkRequest& request)
    : MemoryRequest(footprint_bytes(chunk_range(identity.size_bytes, holding.key.chunk).length),
                    is_ahead(request.hint)),
      store_(store),
      holding_(holding),
      identity_(identity),
      for_warm_job_(request.for_warm_job),
      waits_here_(request.hint == ReadHint::kOnceHere ? std::this_thread::get_id() : std::thread::id()),
      range_(chunk_range(identity.size_bytes, holding.key.chunk)) {}

void Fetch::granted() {
  holding_.cost_bytes = bytes();
  auto buffer = Buffer::allocate(bytes());
  if (!buffer) return fail(buffer.error());
  path_ = store_.catalog_.path(holding_.key.entry);
  if (!store_.tiers_.empty()) record_ = {hash_name(path_, holding_.key.chunk), holding_.key.chunk, identity_};
  disk_read_.buffer = std::move(*buffer);
  read_next_tier();
}

void Fetch::read_next_tier() {
  disk_read_.record = record_;
  disk_read_.context = this;
  disk_read_.on_done = [](DiskRead& read, Status status) {
    static_cast<Fetch*>(read.context)->on_tier_read(std::move(status));
  };
  while (next_tier_ < store_.tiers_.size()) {
    if (store_.tiers_[next_tier_++]->read(disk_read_)) return;
  }
  next_tier_ = SIZE_MAX;
  read_source();
}

void Fetch::on_tier_read(Status status) {
  if (status) {
    next_tier_ -= 1;  // this one needs no copy
    return finish(std::move(disk_read_.buffer), disk_read_.data, store_.tiers_[next_tier_]->kind());
  }
  if (store_.closing_.load()) return fail(status.error());
  read_next_tier();
}

void Fetch::read_source() {
  source_read_.path = path_.c_str();
  source_read_.range = range_;
  source_read_.ahead = ahead();
  source_read_.here = std::this_thread::get_id() == waits_here_;  // not where memory or a tier had to be waited for
  source_read_.identity = identity_;
  source_read_.buffer = std::move(disk_read_.buffer);
  if (store_.source_->read_now(source_read_)) {
    return finish(std::move(source_read_.buffer), source_read_.data, TierKind::kSource);
  }
  source_read_.context = this;
  source_read_.on_done = [](SourceRead& read, Status status) {
    Fetch& self = *static_cast<Fetch*>(read.context);
    if (!status) return self.fail(status.error());
    self.finish(std::move(read.buffer), read.data, TierKind::kSource);
  };
  store_.source_->read(source_read_);
}

void Fetch::finish(Buffer buffer, std::byte* data, TierKind from) {
  holding_.buffer = std::move(buffer);
  holding_.data = data;
  holding_.size = range_.length;
  holding_.fetched_from = from;
  Waiter* waiters = store_.ram_.publish(holding_);
  if (!for_warm_job_) store_.copy_to_tier(holding_, record_, next_tier_);
  store_.ram_.unpin(holding_);  // each waiter has a pin of its own: what they let go of is free at once
  store_.answer(waiters, holding_, from);
  delete this;
}

void Fetch::fail(const Error& error) {
  source_read_.buffer.reset();  // freed before its bytes are given back
  disk_read_.buffer.reset();
  Waiter* waiters = store_.ram_.abandon(holding_);
  store_.ram_.unpin(holding_);
  store_.answer_error(waiters, error);
  delete this;
}

}  // namespace headrace::cache
