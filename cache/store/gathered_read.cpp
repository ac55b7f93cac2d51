// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/gathered_read.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

namespace headrace::cache {
namespace {

using io::Buffer;
using io::Error;
using io::ErrorCode;

constexpr std::uint32_t kSideBySide = 4;  // 16 MiB in flight: enough for any one device, little beside the target

}  // namespace

GatheredRead::GatheredRead(StoreImpl& store, EntryId entry, std::uint64_t file_bytes, ChunkRange span, ReadHint hint,
                           bool ranged, ReadCallback done)
    : MemoryRequest(footprint_bytes(span.length), is_ahead(hint)),
      store_(store),
      entry_(entry),
      file_bytes_(file_bytes),
      span_(span),
      hint_(hint),
      ranged_(ranged),
      done_(std::move(done)),
      next_chunk_(chunk_at(file_bytes, span.offset)),
      last_chunk_(chunk_at(file_bytes, span.offset + span.length - 1)) {}

void GatheredRead::start() {
  const std::uint64_t budget = store_.ram_.budget_bytes();
  const std::uint64_t needed = bytes() + footprint_bytes(kChunkBytes);  // the target, and one chunk to copy from
  if (budget == 0 || needed <= budget) return store_.memory_.request(*this);
  denied(
      {ErrorCode::kNoSpace, 0,
       fmt::format("read {}: needs {} bytes in RAM, the budget is {}", store_.catalog_.path(entry_), needed, budget)});
}

void GatheredRead::denied(Error error) {
  done_(tl::unexpected<Error>(std::move(error)));
  delete this;
}

void GatheredRead::granted() {
  target_ = new Holding(store_.ram_, {entry_, UINT32_MAX});
  target_->pins = 1;
  target_->cost_bytes = bytes();
  auto buffer = Buffer::allocate(bytes());
  if (buffer) {
    target_->buffer = std::move(*buffer);
    target_->data = target_->buffer.data();
    target_->size = span_.length;
  } else {
    error_ = std::move(buffer.error());
    failed_.store(true);
  }
  running_ = 1;  // this function, which ends with an event of its own
  on_event();
}

// An event may arrive inside start_chunk(), when the chunk is in RAM: it is counted here and dealt with by the loop, so
// that a file of thousands of chunks does not become as many nested calls.
void GatheredRead::on_event() {
  if (events_.fetch_add(1) > 0) return;
  do {
    running_ -= 1;
    while (running_ < kSideBySide && next_chunk_ <= last_chunk_ && !failed_.load()) start_chunk();
    if (running_ == 0) return finish();
  } while (events_.fetch_sub(1) > 1);
}

void GatheredRead::start_chunk() {
  const std::uint32_t chunk = next_chunk_++;
  running_ += 1;
  const ChunkRange range = chunk_range(file_bytes_, chunk);
  const std::uint64_t first = std::max(range.offset, span_.offset);
  const std::uint64_t end = std::min(range.offset + range.length, span_.offset + span_.length);
  const ChunkRange part{first - span_.offset, end - first};
  store_.read_chunk(
      {.key = {entry_, chunk}, .offset = first - range.offset, .length = part.length, .hint = hint_, .ranged = ranged_},
      [this, part](Result<View> view) { on_chunk(part, std::move(view)); });
}

void GatheredRead::on_chunk(ChunkRange part, Result<View> view) {
  if (view && view->bytes().size() != part.length) {
    view = io::make_error(ErrorCode::kStale, fmt::format("read {}: changed meanwhile", store_.catalog_.path(entry_)));
  }
  if (view) {
    std::memcpy(target_->data + part.offset, view->bytes().data(), part.length);
    const TierKind from = view->served_from();
    TierKind slowest = slowest_.load();
    while (slowest < from && !slowest_.compare_exchange_weak(slowest, from)) continue;
    view->reset();
  } else if (!failed_.exchange(true)) {
    error_ = std::move(view.error());
  }
  on_event();
}

void GatheredRead::finish() {
  if (failed_.load()) {
    store_.ram_.unpin(*target_);
    done_(tl::unexpected<Error>(std::move(error_)));
  } else {
    done_(target_->view(slowest_.load(), 0, span_.length));
  }
  delete this;
}

}  // namespace headrace::cache
