// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/part_read.h"

#include <utility>

namespace headrace::cache {

using io::Buffer;
using io::Error;

PartRead::PartRead(StoreImpl& store, const ChunkRequest& request, const RecordId& record, ReadCallback done)
    : MemoryRequest(part_buffer_bytes({request.offset, request.length}), false),
      store_(store),
      request_(request),
      done_(std::move(done)) {
  part_.record = record;
  part_.range = {request.offset, request.length};
}

void PartRead::denied(Error error) {
  done_(tl::unexpected<Error>(std::move(error)));
  delete this;
}

void PartRead::granted() {
  target_ = new Holding(store_.ram_, {request_.key.entry, UINT32_MAX});
  target_->pins = 1;
  target_->cost_bytes = bytes();
  auto buffer = Buffer::allocate(bytes());
  if (!buffer) return read_chunk_instead();
  part_.buffer = std::move(*buffer);
  part_.context = this;
  part_.on_done = [](DiskPart& part, const Status& status) {
    static_cast<PartRead*>(part.context)->on_tier_read(status);
  };
  read_next_tier();
}

void PartRead::read_next_tier() {
  while (next_tier_ < store_.tiers_.size()) {
    if (store_.tiers_[next_tier_++]->read_part(part_)) return;
  }
  read_chunk_instead();
}

void PartRead::on_tier_read(const Status& status) {
  if (status) return finish();
  if (!store_.closing_.load()) return read_next_tier();
  part_.buffer.reset();
  store_.ram_.unpin(*target_);
  denied(status.error());
}

void PartRead::finish() {
  target_->buffer = std::move(part_.buffer);
  target_->data = part_.data;
  target_->size = request_.length;
  done_(target_->view(store_.tiers_[next_tier_ - 1]->kind(), 0, request_.length));
  delete this;
}

void PartRead::read_chunk_instead() {
  part_.buffer.reset();  // freed before its bytes are given back
  store_.ram_.unpin(*target_);
  store_.read_chunk(request_, std::move(done_));
  delete this;
}

}  // namespace headrace::cache
