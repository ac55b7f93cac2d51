// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/part_read.h"

#include <memory>
#include <utility>

namespace headrace::cache {
namespace {

using io::Error;

// The range lies within the chunk's record.
Move::Cargo cargo_of(const ChunkRequest& request, const RecordId& record) {
  const ChunkRange part{request.offset, request.length};
  return {record.identity, part, part_buffer_bytes(part)};
}

class PartRead final : public Move {
 public:
  PartRead(StoreParts& store, Holding& holding, const ChunkRequest& request, const RecordId& record)
      : Move(store, holding, cargo_of(request, record), request.hint), request_(request) {
    part_.record = record;
    part_.range = range_;
    // For a record that is on its way a READ may wait, of which nobody tells the tier.
    if (is_ahead(hint_) && hint_ != ReadHint::kAheadAlone) part_.wanted = &io::kNobodyWaits;
    part_.context = this;
    part_.on_done = [](DiskPart& part, const Status& status) {
      static_cast<PartRead*>(part.context)->on_tier_answer(std::move(part.buffer), part.data, status);
    };
  }
  void start() { store_.memory.request(*this); }

 private:
  void ask_first() override { ask_tiers(); }
  [[nodiscard]] bool ask(DiskTier& tier) override;
  void ask_beyond_tiers() override { read_chunk_instead(); }
  void copy(TierKind /*from*/) override {}
  void on_failure(const Error& /*error*/) override { read_chunk_instead(); }
  void read_chunk_instead();

  const ChunkRequest request_;
  DiskPart part_;
};

bool PartRead::ask(DiskTier& tier) {
  part_.buffer = std::move(buffer_);
  if (tier.read_part(part_)) return true;
  buffer_ = std::move(part_.buffer);
  return false;
}

void PartRead::read_chunk_instead() {
  const auto self = store_.mover.take(*this);
  ChunkRequest instead = request_;
  instead.hint = hint_by_now();  // somebody may have come to wait for it
  const std::unique_ptr<Waiter> waiter(give_up());
  read_chunk(store_, instead, std::move(waiter->done));
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
  Holding& holding = unlisted_holding(store, entry, request.hint,
                                      {.length = request.length, .is_cut = request.is_cut, .done = std::move(done)});
  store.mover.add(std::make_unique<PartRead>(store, holding, request, record)).start();
}

}  // namespace headrace::cache
