// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/lean_read.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "headrace/cache/read_rights.h"
#include "headrace/cache/source/source.h"
#include "headrace/io/buffer.h"

namespace headrace::cache {
namespace {

using io::Buffer;
using io::Error;

// Whole pages, so that the source can be read past its page cache.
ChunkRange whole_pages(const ChunkRange& span, std::uint64_t file_bytes) {
  const std::uint64_t begin = span.offset / io::kBufferAlignment * io::kBufferAlignment;
  const std::uint64_t end = span.offset + span.length + io::kBufferAlignment - 1;
  return {begin, std::min(file_bytes, end / io::kBufferAlignment * io::kBufferAlignment) - begin};
}

// Ownership: its own; deletes itself once answered.
// Thread-safety: one step at a time, each on the thread where the step before completed.
class LeanRead final : public MemoryRequest {
 public:
  LeanRead(StoreParts& store, const SpanRequest& request, ReadCallback done)
      : MemoryRequest(footprint_bytes(whole_pages(request.span, request.identity.size_bytes).length),
                      is_ahead(request.hint)),
        store_(store),
        request_(request),
        waits_here_(may_wait_here(request.hint) ? std::this_thread::get_id() : std::thread::id()),
        attributes_(store.identities.attributes(request.entry)),
        path_(store.catalog.path(request.entry)),
        done_(std::move(done)) {
    if (is_ahead(request.hint)) read_ahead_.emplace(store.reads_ahead, request.entry);
    source_read_.path = path_.c_str();
    source_read_.range = whole_pages(request.span, request.identity.size_bytes);
    source_read_.identity = request.identity;
    // For a record that is on its way a READ may wait, of which nobody tells the source.
    source_read_.wanted = request.hint == ReadHint::kAheadAlone ? nullptr : &io::kNobodyWaits;
    source_read_.keep = request.entry;
    source_read_.context = this;
    source_read_.on_done = [](SourceRead& read, Status status) {
      static_cast<LeanRead*>(read.context)->on_source_read(std::move(status));
    };
    if (is_kept_range(store, request)) disk_read_.record = range_record(store, request);
    disk_read_.wanted = source_read_.wanted;
    disk_read_.context = this;
    disk_read_.on_done = [](DiskRead& read, Status status) {
      static_cast<LeanRead*>(read.context)->on_tier_read(std::move(status));
    };
  }
  void start() { store_.memory.request(*this); }

  [[nodiscard]] bool ahead() const override { return is_ahead(hint()); }

  void granted() override;
  void denied(Error error) override;

 private:
  [[nodiscard]] ReadHint hint() const {
    return read_ahead_ && read_ahead_->is_wanted() ? ReadHint::kNow : request_.hint;
  }
  [[nodiscard]] bool is_kept() const { return disk_read_.record.range_bytes > 0; }
  void read_next_tier();
  void on_tier_read(Status status);
  void read_source();
  void on_source_read(Status status);
  void finish(Buffer buffer, std::byte* data, TierKind from);
  void fail(Error error);

  StoreParts& store_;
  const SpanRequest request_;
  const std::thread::id waits_here_;            // the thread that may wait for the source; none: nobody may
  const AttributeClass attributes_;             // by which the reader was let in
  std::optional<ReadsAhead::Read> read_ahead_;  // nullopt: it is one for now
  const std::string path_;
  const ReadCallback done_;
  Holding* target_ = nullptr;  // never listed; its only pin becomes the caller's view
  std::size_t next_tier_ = 0;  // the first that was not asked; those before it may take a copy
  DiskRead disk_read_;         // of a range that is kept
  SourceRead source_read_;
};

void LeanRead::denied(Error error) {
  done_(tl::unexpected<Error>(std::move(error)));
  delete this;
}

void LeanRead::granted() {
  target_ = new Holding(store_.ram, {request_.entry, UINT32_MAX});
  target_->pins = 1;
  target_->cost_bytes = bytes();
  store_.memory.on_fetch_begun();
  auto buffer = Buffer::allocate(bytes());
  if (!buffer) return fail(std::move(buffer.error()));
  disk_read_.buffer = std::move(*buffer);
  // Until the source was asked about the file, a tier may have what was in it before. A read of the source asks.
  is_kept() && store_.identities.is_confirmed(request_.entry) ? read_next_tier() : read_source();
}

void LeanRead::read_next_tier() {
  while (next_tier_ < store_.tiers.size()) {
    if (store_.tiers[next_tier_++]->read(disk_read_)) return;
  }
  read_source();
}

void LeanRead::on_tier_read(Status status) {
  if (status) {
    next_tier_ -= 1;  // this one needs no copy
    return finish(std::move(disk_read_.buffer), disk_read_.data, store_.tiers[next_tier_]->kind());
  }
  if (store_.closing.load()) return fail(std::move(status.error()));
  read_next_tier();
}

void LeanRead::read_source() {
  next_tier_ = SIZE_MAX;
  source_read_.buffer = std::move(disk_read_.buffer);
  source_read_.ahead = ahead();
  source_read_.here = std::this_thread::get_id() == waits_here_;  // false once memory or a tier had to be waited for
  store_.source->read(source_read_);
}

void LeanRead::on_source_read(Status status) {
  if (!status) return fail(std::move(status.error()));
  store_.identities.confirm(request_.entry);
  finish(std::move(source_read_.buffer), source_read_.data, TierKind::kSource);
}

void LeanRead::finish(Buffer buffer, std::byte* data, TierKind from) {
  store_.memory.on_fetch_ended();
  const ChunkRange& range = source_read_.range;
  target_->buffer = std::move(buffer);
  target_->data = data;
  target_->size = range.length;
  target_->identity = request_.identity;
  if (is_kept()) store_.copy_to_tier(*target_, disk_read_.record, next_tier_);
  done_(target_->view(from, request_.span.offset - range.offset, request_.span.length));
  delete this;
}

void LeanRead::fail(Error error) {
  store_.memory.on_fetch_ended();
  source_read_.buffer.reset();  // freed before their bytes are given back
  disk_read_.buffer.reset();
  store_.ram.unpin(*target_);
  const bool may_read = lets_in_all(store_.identities.attributes(request_.entry), attributes_);
  if (!is_other_version(error) || !may_read) return denied(std::move(error));
  SpanRequest anew = request_;
  anew.hint = hint();
  // A chunk takes longer than whoever reads a range may be kept from other requests.
  if (anew.hint == ReadHint::kNowHere) anew.hint = ReadHint::kNow;
  read_span(store_, anew, done_);  // it finds out what the file is now
  delete this;
}

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
  (new LeanRead(store, request, std::move(done)))->start();
}

}  // namespace headrace::cache
