// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/part_read.h"

#include <cstddef>
#include <utility>

namespace headrace::cache {
namespace {

using io::Buffer;
using io::Error;

// Ownership: its own; deletes itself once answered.
// Thread-safety: one step at a time, each on the thread where the step before completed.
class PartRead final : public MemoryRequest {
 public:
  PartRead(StoreParts& store, const ChunkRequest& request, const RecordId& record, ReadCallback done)
      : MemoryRequest(part_buffer_bytes({request.offset, request.length}), is_ahead(request.hint)),
        store_(store),
        request_(request),
        done_(std::move(done)) {
    part_.record = record;
    part_.range = {request.offset, request.length};
  }
  void start() { store_.memory.request(*this); }

  void granted() override;
  void denied(Error error) override;

 private:
  void read_next_tier();
  void on_tier_read(const Status& status);
  void finish();
  void read_chunk_instead();
  void give_back();

  StoreParts& store_;
  const ChunkRequest request_;
  ReadCallback done_;
  Holding* target_ = nullptr;  // never listed; its only pin becomes the caller's view
  std::size_t next_tier_ = 0;
  DiskPart part_;
};

void PartRead::denied(Error error) {
  done_(tl::unexpected<Error>(std::move(error)));
  delete this;
}

void PartRead::granted() {
  target_ = new Holding(store_.ram, {request_.key.entry, UINT32_MAX});
  target_->pins = 1;
  target_->cost_bytes = bytes();
  store_.memory.on_fetch_begun();
  auto buffer = Buffer::allocate(bytes());
  if (!buffer) return read_chunk_instead();
  part_.buffer = std::move(*buffer);
  // For a record that is on its way a READ may wait, of which nobody tells the tier.
  if (is_ahead(request_.hint) && request_.hint != ReadHint::kAheadAlone) part_.wanted = &io::kNobodyWaits;
  part_.context = this;
  part_.on_done = [](DiskPart& part, const Status& status) {
    static_cast<PartRead*>(part.context)->on_tier_read(status);
  };
  read_next_tier();
}

void PartRead::read_next_tier() {
  while (next_tier_ < store_.tiers.size()) {
    if (store_.tiers[next_tier_++]->read_part(part_)) return;
  }
  read_chunk_instead();
}

void PartRead::on_tier_read(const Status& status) {
  if (status) return finish();
  if (!store_.closing.load()) return read_next_tier();
  give_back();
  denied(status.error());
}

void PartRead::finish() {
  store_.memory.on_fetch_ended();
  target_->buffer = std::move(part_.buffer);
  target_->data = part_.data;
  target_->size = request_.length;
  done_(target_->view(store_.tiers[next_tier_ - 1]->kind(), 0, request_.length));
  delete this;
}

void PartRead::give_back() {
  part_.buffer.reset();  // freed before its bytes are
  store_.memory.on_fetch_ended();
  store_.ram.unpin(*target_);
}

void PartRead::read_chunk_instead() {
  give_back();
  read_chunk(store_, request_, std::move(done_));
  delete this;
}

}  // namespace

void read_part(StoreParts& store, const ChunkRequest& request, ReadCallback done) {
  const auto& [entry, chunk] = request.key;
  const Result<Identity> identity = store.identities.of_file(entry);
  if (!identity) return done(tl::unexpected<Error>(identity.error()));
  const RecordId record{hash_name(store.catalog.path(entry), chunk), chunk, *identity};
  // The chunk's fetch asks the source about the file where nobody has yet, and ends where the file is cut another way.
  const bool is_as_asked = is_chunked(identity->size_bytes) == request.is_cut;
  if (!is_as_asked || !store.identities.is_confirmed(entry) || !store.held_on_disk(record))
    return read_chunk(store, request, std::move(done));
  (new PartRead(store, request, record, std::move(done)))->start();
}

}  // namespace headrace::cache
