// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/fetch.h"

#include <utility>

namespace headrace::cache {

using io::Buffer;
using io::Error;

Fetch::Fetch(StoreImpl& store, Holding& holding, const Identity& identity, bool ahead)
    : MemoryRequest(footprint_bytes(chunk_range(identity.size_bytes, holding.key.chunk).length), ahead),
      store_(store),
      holding_(holding),
      identity_(identity),
      range_(chunk_range(identity.size_bytes, holding.key.chunk)) {}

void Fetch::granted() {
  holding_.cost_bytes = bytes();
  auto buffer = Buffer::allocate(bytes());
  if (!buffer) return fail(buffer.error());
  source_read_.buffer = std::move(*buffer);
  read_source();
}

void Fetch::read_source() {
  source_read_.path = store_.catalog_.path(holding_.key.entry);
  source_read_.range = range_;
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
  store_.ram_.unpin(holding_);  // each waiter has a pin of its own: what they let go of is free at once
  store_.answer(waiters, holding_, from);
  delete this;
}

void Fetch::fail(const Error& error) {
  source_read_.buffer.reset();  // freed before its bytes are given back
  Waiter* waiters = store_.ram_.abandon(holding_);
  store_.ram_.unpin(holding_);
  store_.answer_error(waiters, error);
  delete this;
}

}  // namespace headrace::cache
