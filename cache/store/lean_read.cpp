// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/lean_read.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "headrace/cache/source/source.h"
#include "headrace/io/buffer.h"

namespace headrace::cache {
namespace {

// Whole pages, so that the source can be read past its page cache.
ChunkRange whole_pages(const ChunkRange& span, std::uint64_t file_bytes) {
  const std::uint64_t begin = span.offset / io::kBufferAlignment * io::kBufferAlignment;
  const std::uint64_t end = span.offset + span.length + io::kBufferAlignment - 1;
  return {begin, std::min(file_bytes, end / io::kBufferAlignment * io::kBufferAlignment) - begin};
}

Move::Cargo cargo_of(const SpanRequest& request) {
  const ChunkRange pages = whole_pages(request.span, request.identity.size_bytes);
  return {request.identity, pages, footprint_bytes(pages.length)};
}

class LeanRead final : public SpanMove {
 public:
  LeanRead(StoreParts& store, Holding& holding, const SpanRequest& request)
      : SpanMove(store, holding, cargo_of(request), request) {
    // For a record that is on its way a READ may wait, of which nobody tells the source.
    source_read_.wanted = request.hint == ReadHint::kAheadAlone ? nullptr : &io::kNobodyWaits;
    source_read_.keep = request.entry;
    disk_read_.wanted = source_read_.wanted;
    if (is_kept_range(store, request)) disk_read_.record = range_record(store, request);
  }
  void start() { store_.memory.request(*this); }

 private:
  [[nodiscard]] bool is_kept() const { return disk_read_.record.range_bytes > 0; }
  // Until the source was asked about the file, a tier may have what was in it before. A read of the source asks.
  void ask_first() override { is_kept() && store_.identities.is_confirmed(entry()) ? ask_tiers() : skip_tiers(); }
  void copy(TierKind /*from*/) override {
    if (is_kept()) store_.copy_to_tier(holding_, disk_read_.record, next_tier_);
  }
};

}  // namespace

bool is_kept_range(const StoreParts& store, const SpanRequest& request) {
  if (request.hint != ReadHint::kAheadAlone || request.span.length < kKeptRangeBytesMin) return false;
  return !store.tiers.empty() && !store.peer_takes(request.entry) && !store.can_hold(request.identity.size_bytes);
}

RecordId range_record(const StoreParts& store, const SpanRequest& request) {
  const ChunkRange pages = whole_pages(request.span, request.identity.size_bytes);
  return {hash_name(store.catalog.path(request.entry), pages), 0, request.identity, pages.length};
}

void read_lean(StoreParts& store, const SpanRequest& request, ReadCallback done) {
  if (request.span.offset == 0 && store.follower->watches()) store.follower->note_use(request.entry);
  const std::uint64_t offset = request.span.offset - cargo_of(request).range.offset;
  Waiter waiter{.offset = offset,
                .length = request.span.length,
                .is_cut = is_chunked(request.identity.size_bytes),
                .done = std::move(done)};
  Holding& holding = unlisted_holding(store, request.entry, request.hint, std::move(waiter));
  store.mover.add(std::make_unique<LeanRead>(store, holding, request)).start();
}

}  // namespace headrace::cache
