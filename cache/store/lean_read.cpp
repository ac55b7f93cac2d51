// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/lean_read.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>

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
      static_cast<LeanRead*>(read.context)->on_read(std::move(status));
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
  void on_read(Status status);

  StoreParts& store_;
  const SpanRequest request_;
  const std::thread::id waits_here_;            // the thread that may wait for the source; none: nobody may
  const AttributeClass attributes_;             // by which the reader was let in
  std::optional<ReadsAhead::Read> read_ahead_;  // nullopt: it is one for now
  const std::string path_;
  const ReadCallback done_;
  Holding* target_ = nullptr;  // never listed; its only pin becomes the caller's view
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
  if (!buffer) return on_read(io::forward_error(std::move(buffer)));
  source_read_.buffer = std::move(*buffer);
  source_read_.ahead = ahead();
  source_read_.here = std::this_thread::get_id() == waits_here_;  // false where memory had to be waited for
  store_.source->read(source_read_);
}

void LeanRead::on_read(Status status) {
  store_.memory.on_fetch_ended();
  if (!status) {
    source_read_.buffer.reset();  // freed before its bytes are given back
    store_.ram.unpin(*target_);
    const bool may_read = store_.identities.attributes(request_.entry) == attributes_;
    if (!is_other_version(status.error()) || !may_read) return denied(std::move(status.error()));
    SpanRequest anew = request_;
    anew.hint = hint();
    // A chunk takes longer than whoever reads a range may be kept from other requests.
    if (anew.hint == ReadHint::kNowHere) anew.hint = ReadHint::kNow;
    read_span(store_, anew, done_);  // it finds out what the file is now
    delete this;
    return;
  }
  target_->buffer = std::move(source_read_.buffer);
  target_->data = source_read_.data;
  target_->size = source_read_.range.length;
  const std::uint64_t offset = request_.span.offset - source_read_.range.offset;
  done_(target_->view(TierKind::kSource, offset, request_.span.length));
  delete this;
}

}  // namespace

void read_lean(StoreParts& store, const SpanRequest& request, ReadCallback done) {
  if (request.span.offset == 0 && store.follower->watches()) store.follower->note_use(request.entry);
  (new LeanRead(store, request, std::move(done)))->start();
}

}  // namespace headrace::cache
