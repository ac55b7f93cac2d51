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

using io::Error;
using io::ErrorCode;

constexpr std::uint32_t kSideBySide = 4;  // 16 MiB on their way: enough for any one device, little beside the target

constexpr std::uint64_t kSpareBytes = footprint_bytes(kChunkBytes);

// Reserves the buffer and the memory of one chunk, the spare, at once. From then on it waits for nobody's memory: a
// chunk is fetched like any other where memory is free for it, else in the spare, one after the other. So each of these
// reads goes on, however many there are and however small the budget is.
class GatheredRead final : public SpanMove {
 public:
  GatheredRead(StoreParts& store, Holding& holding, const SpanRequest& request)
      : SpanMove(store, holding, {request.identity, request.span, footprint_bytes(request.span.length), kSpareBytes},
                 request),
        next_chunk_(chunk_at(request.identity.size_bytes, request.span.offset)),
        last_chunk_(chunk_at(request.identity.size_bytes, request.span.offset + request.span.length - 1)) {}
  void start();

 private:
  [[nodiscard]] bool wants_more() const { return next_chunk_ <= last_chunk_ && !failed_.load(); }
  void ask_first() override { on_event(); }
  void copy(TierKind /*from*/) override {}
  void on_failure(const Error& error) override;
  [[nodiscard]] bool see_file_anew() override { return true; }  // each chunk's own read has looked, where it may wait
  [[nodiscard]] bool start_chunk();
  [[nodiscard]] bool take_memory(ChunkRequest& request, std::uint64_t chunk_bytes);
  [[nodiscard]] bool is_expected(const View& view, const ChunkRange& part) const;
  void on_chunk(ChunkRange part, bool in_spare, Result<View> view);
  void copy_part(ChunkRange part, View view);
  void on_event();
  void give_spare_back();

  // Chunks that ended and are not dealt with yet. Whoever raises it from 0 deals with all of them, alone.
  std::atomic<std::uint32_t> events_ = 0;
  std::uint32_t running_ = 1;     // fetches whose event is not dealt with, and the start, which is an event
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

// An event may arrive inside start_chunk(), when the chunk is in RAM: it is counted here and dealt with by the loop, so
// that a file of thousands of chunks does not become as many nested calls.
void GatheredRead::on_event() {
  if (events_.fetch_add(1) > 0) return;
  do {
    running_ -= 1;
    while (running_ < kSideBySide && wants_more() && start_chunk()) continue;
    if (running_ == 0) {
      if (failed_.load()) return on_failure(error_);
      give_spare_back();
      return finish(buffer_.data(), slowest_.load());
    }
  } while (events_.fetch_sub(1) > 1);
}

// False: there is no memory for it now, and the end of the fetch that is in the spare is an event.
bool GatheredRead::start_chunk() {
  const ChunkRange range = chunk_range(request_.identity.size_bytes, next_chunk_);
  ChunkRequest request = part_in_chunk(request_, next_chunk_);
  if (!ahead() && is_ahead(hint_)) request.hint = ReadHint::kNow;
  request.attempts_left = kAttemptsAfterChange;  // for those who join
  const ChunkRange part{range.offset + request.offset - request_.span.offset, request.length};
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
  std::memcpy(buffer_.data() + part.offset, view.bytes().data(), part.length);
  const TierKind from = view.served_from();
  TierKind slowest = slowest_.load();
  while (slowest < from && !slowest_.compare_exchange_weak(slowest, from)) continue;
}

void GatheredRead::on_failure(const Error& error) {
  give_spare_back();
  SpanMove::on_failure(error);
}

void GatheredRead::give_spare_back() {
  if (has_spare_.exchange(false)) store_.ram.unreserve(kSpareBytes);
}

// The same part of the file as it is now; of a file that was read whole, all of it. nullopt: nothing is left there.
std::optional<SpanRequest> span_anew(const SpanRequest& request, const Identity& now) {
  const bool whole = request.span.length == request.identity.size_bytes;
  if (!whole && request.span.offset >= now.size_bytes) return std::nullopt;
  SpanRequest anew = request;
  anew.identity = now;
  anew.span.length = whole ? now.size_bytes : std::min(request.span.length, now.size_bytes - request.span.offset);
  anew.attempts_left -= 1;
  return anew;
}

}  // namespace

void SpanMove::on_failure(const Error& error) {
  const std::optional<Identity> now = version_anew(error, request_.attempts_left);
  std::optional<SpanRequest> anew = now ? span_anew(request_, *now) : std::nullopt;
  if (!anew) return fail(error);
  const auto self = store_.mover.take(*this);  // from now on nobody else hurries it
  anew->hint = hint_by_now();
  const std::unique_ptr<Waiter> waiter(give_up());
  read_span(store_, *anew, std::move(waiter->done));
}

ChunkRequest part_in_chunk(const SpanRequest& request, std::uint32_t chunk) {
  const std::uint64_t file_bytes = request.identity.size_bytes;
  const ChunkRange range = chunk_range(file_bytes, chunk);
  const std::uint64_t first = std::max(range.offset, request.span.offset);
  const std::uint64_t end = std::min(range.offset + range.length, request.span.offset + request.span.length);
  return {.key = {request.entry, chunk},
          .offset = first - range.offset,
          .length = end - first,
          .is_cut = is_chunked(file_bytes),
          .hint = request.hint,
          .ranged = request.ranged,
          .attempts_left = request.attempts_left};
}

void read_span(StoreParts& store, const SpanRequest& request, ReadCallback done) {
  const ChunkRange& span = request.span;
  const std::uint64_t file_bytes = request.identity.size_bytes;
  // An empty file may have been written since it was listed, as any other: the source is asked once.
  if (span.length == 0 && (file_bytes > 0 || store.identities.is_confirmed(request.entry))) return done(View{});
  const std::uint32_t first = chunk_at(file_bytes, span.offset);
  // Of a read alone many views may wait to be pushed: each as a copy, or it would pin a chunk for a few pages.
  const bool is_copied = is_alone(request.hint) && is_chunked(file_bytes);
  if (is_copied || first != chunk_at(file_bytes, span.offset + span.length - 1)) {
    Holding& holding =
        unlisted_holding(store, request.entry, request.hint,
                         {.length = span.length, .is_cut = is_chunked(file_bytes), .done = std::move(done)});
    return store.mover.add(std::make_unique<GatheredRead>(store, holding, request)).start();
  }
  ChunkRequest chunk = part_in_chunk(request, first);
  if (span.length == file_bytes) chunk.length = UINT64_MAX;  // the whole file, even if it grew meanwhile
  read_chunk(store, chunk, std::move(done));
}

}  // namespace headrace::cache
