// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store/gathered_read.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace headrace::cache {
namespace {

using io::Buffer;
using io::Error;
using io::ErrorCode;

constexpr std::uint32_t kSideBySide = 4;  // 16 MiB on their way: enough for any one device, little beside the target

// Reserves the target and the memory of one chunk, the spare, at once. From then on it waits for nobody's memory: a
// chunk is fetched like any other where memory is free for it, else in the spare, one after the other. So each of these
// reads goes on, however many there are and however small the budget is.
// Ownership: the mover's, until it is answered.
class GatheredRead final : public MemoryRequest, public UnderWay {
 public:
  GatheredRead(StoreParts& store, const SpanRequest& request, ReadCallback done)
      : MemoryRequest(footprint_bytes(request.span.length) + kSpareBytes, is_ahead(request.hint)),
        UnderWay(request.entry),
        store_(store),
        request_(request),
        attributes_(store.identities.attributes(request.entry)),
        wanted_now_(!is_ahead(request.hint)),
        done_(std::move(done)),
        next_chunk_(chunk_at(request.identity.size_bytes, request.span.offset)),
        last_chunk_(chunk_at(request.identity.size_bytes, request.span.offset + request.span.length - 1)) {}
  void start();

  [[nodiscard]] bool ahead() const override { return is_ahead(hint()); }
  void granted() override;
  void denied(Error error) override;
  [[nodiscard]] RamTier::Wanted want() override {
    const bool is_first = !wanted_now_.exchange(true);
    return {.is_first = is_first, .in_line = is_first};
  }

 private:
  static constexpr std::uint64_t kSpareBytes = footprint_bytes(kChunkBytes);

  [[nodiscard]] ReadHint hint() const {
    return is_ahead(request_.hint) && wanted_now_ ? ReadHint::kNow : request_.hint;
  }
  [[nodiscard]] bool wants_more() const { return next_chunk_ <= last_chunk_ && !failed_.load(); }
  [[nodiscard]] bool start_chunk();
  [[nodiscard]] bool take_memory(ChunkRequest& request, std::uint64_t chunk_bytes);
  [[nodiscard]] bool is_expected(const View& view, const ChunkRange& part) const;
  void on_chunk(ChunkRange part, bool in_spare, Result<View> view);
  void copy_part(ChunkRange part, View view);
  void on_event();
  void finish();
  [[nodiscard]] bool begin_anew();

  StoreParts& store_;
  const SpanRequest request_;
  const AttributeClass attributes_;  // by which the reader was let in
  std::atomic<bool> wanted_now_;     // by somebody who waits for it, though it began ahead
  ReadCallback done_;
  Holding* target_ = nullptr;  // never listed; its only pin becomes the caller's view

  // Chunks that ended and are not dealt with yet. Whoever raises it from 0 deals with all of them, alone.
  std::atomic<std::uint32_t> events_ = 0;
  std::uint32_t running_ = 0;     // fetches whose event is not dealt with
  std::uint32_t next_chunk_ = 0;  // the first not started
  std::uint32_t last_chunk_ = 0;
  std::atomic<bool> has_spare_ = true;  // false: a chunk is fetched there, or the last one has got it for good
  std::atomic<bool> failed_ = false;
  Error error_;  // written once, by whoever raised failed_
  std::atomic<TierKind> slowest_ = TierKind::kRam;
};

void GatheredRead::start() {
  const std::uint64_t budget = store_.ram.budget_bytes();
  if (budget == 0 || bytes() <= budget) return store_.memory.request(*this);
  denied({ErrorCode::kNoSpace, 0,
          fmt::format("read {}: needs {} bytes in RAM, the budget is {}", store_.catalog.path(request_.entry), bytes(),
                      budget)});
}

void GatheredRead::denied(Error error) {
  const auto self = store_.mover.take(*this);
  done_(tl::unexpected<Error>(std::move(error)));
}

void GatheredRead::granted() {
  target_ = new Holding(store_.ram, {request_.entry, UINT32_MAX});
  target_->pins = 1;
  target_->cost_bytes = bytes() - kSpareBytes;
  auto buffer = Buffer::allocate(target_->cost_bytes);
  if (buffer) {
    target_->buffer = std::move(*buffer);
    target_->data = target_->buffer.data();
    target_->size = request_.span.length;
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
    while (running_ < kSideBySide && wants_more() && start_chunk()) continue;
    if (running_ == 0) return finish();
  } while (events_.fetch_sub(1) > 1);
}

// False: there is no memory for it now, and the end of the fetch that is in the spare is an event.
bool GatheredRead::start_chunk() {
  const ChunkRange range = chunk_range(request_.identity.size_bytes, next_chunk_);
  const std::uint64_t first = std::max(range.offset, request_.span.offset);
  const std::uint64_t end = std::min(range.offset + range.length, request_.span.offset + request_.span.length);
  const ChunkRange part{first - request_.span.offset, end - first};
  ChunkRequest request{.key = {request_.entry, next_chunk_},
                       .offset = first - range.offset,
                       .length = part.length,
                       .is_cut = is_chunked(request_.identity.size_bytes),
                       .hint = hint(),
                       .ranged = request_.ranged};
  std::optional<View> held = read_from_memory(store_, request);
  if (!held && !take_memory(request, range.length)) return false;
  next_chunk_ += 1;
  running_ += 1;
  const bool in_spare = request.memory == FetchMemory::kLent;
  if (held) {
    on_chunk(part, false, std::move(*held));
  } else {
    read_chunk(store_, request,
               [this, part, in_spare](Result<View> view) { on_chunk(part, in_spare, std::move(view)); });
  }
  return true;
}

// The last chunk gets the spare for good, and so it can stay in RAM.
bool GatheredRead::take_memory(ChunkRequest& request, std::uint64_t chunk_bytes) {
  request.memory = FetchMemory::kReserved;
  request.memory_bytes = footprint_bytes(chunk_bytes);
  const bool is_last = next_chunk_ == last_chunk_;
  if (is_last && has_spare_.exchange(false)) {
    store_.ram.unreserve(kSpareBytes - request.memory_bytes);
    return true;
  }
  if (store_.memory.try_now(request.memory_bytes, ahead())) return true;
  request.memory = FetchMemory::kLent;
  return has_spare_.exchange(false);
}

bool GatheredRead::is_expected(const View& view, const ChunkRange& part) const {
  return view.bytes().size() == part.length && Holding::of(view)->identity == request_.identity;
}

void GatheredRead::on_chunk(ChunkRange part, bool in_spare, Result<View> view) {
  if (view && !is_expected(*view, part)) {
    view = io::make_error(ErrorCode::kStale,
                          fmt::format("read {}: changed meanwhile", store_.catalog.path(request_.entry)));
  }
  if (view) {
    copy_part(part, std::move(*view));
  } else if (!failed_.exchange(true)) {
    error_ = std::move(view.error());
  }
  if (in_spare) has_spare_.store(true);
  on_event();
}

// The view ends here, and with it what was read in the spare.
void GatheredRead::copy_part(ChunkRange part, View view) {
  std::memcpy(target_->data + part.offset, view.bytes().data(), part.length);
  const TierKind from = view.served_from();
  TierKind slowest = slowest_.load();
  while (slowest < from && !slowest_.compare_exchange_weak(slowest, from)) continue;
}

void GatheredRead::finish() {
  const auto self = store_.mover.take(*this);
  if (has_spare_.load()) store_.ram.unreserve(kSpareBytes);
  if (failed_.load()) {
    store_.ram.unpin(*target_);
    if (error_.code != ErrorCode::kStale || !begin_anew()) done_(tl::unexpected<Error>(std::move(error_)));
  } else {
    done_(target_->view(slowest_.load(), 0, request_.span.length));
  }
}

bool GatheredRead::begin_anew() {
  const std::optional<Identity> now = store_.version_anew(request_.entry, attributes_, request_.attempts_left);
  std::optional<SpanRequest> request = now ? span_anew(request_, *now) : std::nullopt;
  if (!request) return false;
  request->hint = hint();
  read_span(store_, *request, std::move(done_));
  return true;
}

}  // namespace

std::optional<SpanRequest> span_anew(const SpanRequest& request, const Identity& now) {
  const bool whole = request.span.length == request.identity.size_bytes;
  if (!whole && request.span.offset >= now.size_bytes) return std::nullopt;
  SpanRequest anew = request;
  anew.identity = now;
  anew.span.length = whole ? now.size_bytes : std::min(request.span.length, now.size_bytes - request.span.offset);
  anew.attempts_left -= 1;
  return anew;
}

void read_span(StoreParts& store, const SpanRequest& request, ReadCallback done) {
  const auto& [entry, identity, span, hint, ranged, attempts_left] = request;
  const std::uint64_t file_bytes = identity.size_bytes;
  // An empty file may have been written since it was listed, as any other: the source is asked once.
  if (span.length == 0 && (file_bytes > 0 || store.identities.is_confirmed(entry))) return done(View{});
  const std::uint32_t first = chunk_at(file_bytes, span.offset);
  // Of a read alone many views may wait to be pushed: each as a copy, or it would pin a chunk for a few pages.
  const bool is_copied = is_alone(hint) && is_chunked(file_bytes);
  if (is_copied || first != chunk_at(file_bytes, span.offset + span.length - 1)) {
    return store.mover.add(std::make_unique<GatheredRead>(store, request, std::move(done))).start();
  }
  const std::uint64_t offset = span.offset - chunk_range(file_bytes, first).offset;
  // UINT64_MAX: the whole file, even if it grew meanwhile.
  const std::uint64_t length = span.length == file_bytes ? UINT64_MAX : span.length;
  read_chunk(store,
             {.key = {entry, first},
              .offset = offset,
              .length = length,
              .is_cut = is_chunked(file_bytes),
              .hint = hint,
              .ranged = ranged,
              .attempts_left = attempts_left},
             std::move(done));
}

}  // namespace headrace::cache
