// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store.h"

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>
#include <xxhash.h>

#include "headrace/cache/revalidate.h"
#include "headrace/cache/store/fetch.h"
#include "headrace/cache/store/gathered_read.h"
#include "headrace/cache/store/part_read.h"
#include "headrace/cache/store/store_impl.h"
#include "headrace/cache/store/warm_job.h"
#include "headrace/io/buffer.h"

namespace headrace::cache {
namespace {

using io::CondVar;
using io::Error;
using io::ErrorCode;
using io::Mutex;
using io::MutexLock;

// 64 MiB waiting to be written, or a quarter of the RAM budget: rides out a disk's pauses without holding the memory
// that reads need.
constexpr std::uint64_t kWriteBehindBytesMax = 64ULL << 20;
// A sixteenth of a chunk: reads up to here are answered in a fraction of the time that the chunk takes. Random reads of
// 64 KiB from a tier on a virtual disk: 4300 per second instead of 590 (0.2 ms instead of 1.6, 2026-11-22).
constexpr std::uint64_t kPartBytesMax = 256 << 10;
// What 128 reads in flight of 110 kB need, the most that an engine starts by itself.
constexpr std::uint64_t kFirstBuffersBytes = 16ULL << 20;
constexpr std::uint32_t kChunksAhead = 2;  // 8 MiB: keeps a stream of a large file busy, costs little when it stops

// Takes the memory for the first reads from the system on a thread of its own, which the end of the future waits for.
// Fresh memory can take the system 1 ms per MB (a virtual machine whose host has to provide it), and the thread that
// submits reads would wait for it, page by page, before the device had anything to do.
std::future<void> provide_first_buffers(std::uint64_t ram_bytes) {
  const std::uint64_t bytes = ram_bytes == 0 ? kFirstBuffersBytes : std::min(ram_bytes, kFirstBuffersBytes);
  // Deferred, and so never, where there is no thread to be had.
  return std::async(std::launch::async | std::launch::deferred, [bytes] {
    ::pthread_setname_np(::pthread_self(), "hr-memory");
    io::provide_buffers(bytes);
  });
}

// Where a blocking read waits for its callback. The notification happens under the lock: the waiter may take the latch
// away as soon as it has seen the result.
class ReadLatch {
 public:
  void set(Result<View> result) {
    MutexLock lock(mutex_);
    result_ = std::move(result);
    arrived_.notify_one();
  }
  [[nodiscard]] Result<View> wait() {
    MutexLock lock(mutex_);
    while (!result_) arrived_.wait(lock);
    return std::move(*result_);
  }

 private:
  Mutex mutex_;
  CondVar arrived_;
  std::optional<Result<View>> result_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const StoreOptions& options) {
  const std::future<void> first_buffers = provide_first_buffers(options.ram_bytes);
  auto root = open_source_root(options);
  if (!root) return io::forward_error(std::move(root));
  auto catalog = open_catalog((*root)->fd(), options.catalog, options.catalog_file);
  if (!catalog) return io::forward_error(std::move(catalog));
  auto store = std::make_unique<StoreImpl>(std::move(*catalog), options.ram_bytes);
  if (auto started = store->start(options, std::move(*root)); !started) return io::forward_error(std::move(started));
  return store;
}

StoreImpl::StoreImpl(Catalog catalog, std::uint64_t ram_bytes)
    : catalog_(std::move(catalog)),
      ram_(ram_bytes, [this] { memory_.pump_soon(); }),
      memory_(ram_, timers_, [this](std::function<void()> task) { source_->post(std::move(task)); }) {}

Status StoreImpl::start(const StoreOptions& options, std::shared_ptr<SourceRoot> root) {
  auto source = Source::open(options, std::move(root), timers_);
  if (!source) return io::forward_error(std::move(source));
  source_ = std::move(*source);
  return open_tiers(options);
}

std::shared_ptr<const io::UniqueFd> StoreImpl::source_directory() const {
  auto root = source_->root();
  return {root, &root->directory()};
}

Status StoreImpl::open_tiers(const StoreOptions& options) {
  std::string name = options.source.string();
  if (options.source_fd < 0) {   // else the path only names it, and may lie under a mount that does not answer yet
    std::error_code unresolved;  // then the name as given identifies the data set
    const auto canonical = std::filesystem::weakly_canonical(options.source, unresolved);
    if (!unresolved) name = canonical.string();
  }
  for (const TierOptions& tier : options.tiers) {
    auto opened = DiskTier::open({.tier = tier,
                                  .data_set = {XXH3_64bits(name.data(), name.size()), name},
                                  .engine = options.engine,
                                  .make_engine = options.make_tier_engine},
                                 ram_, timers_);
    if (!opened) return io::forward_error(std::move(opened));
    tiers_.push_back(std::move(*opened));
  }
  make_placement();
  return {};
}

// From the front to the back: nothing new may start behind what has ended already. After settle() every thread has seen
// `closing_`, so that no completion starts another step; then what is left is cancelled.
StoreImpl::~StoreImpl() {
  for (const auto& tier : tiers_) tier->close();
  closing_.store(true);
  memory_.close();
  if (source_ == nullptr) return;
  source_->stop_retrying();
  timers_.stop();
  source_->settle();
  for (const auto& tier : tiers_) tier->settle();
  source_->join();
  for (const auto& tier : tiers_) tier->join();
}

Result<View> StoreImpl::read(EntryId entry) {
  const Result<Identity> identity = identity_of(entry);
  if (!identity) return tl::unexpected<Error>(identity.error());
  if (!is_chunked(identity->size_bytes)) {
    if (Holding* hit = ram_.pin({entry, 0}, false)) {
      reads_.fetch_add(1, std::memory_order_relaxed);
      note_use_in_memory({.key = {entry, 0}});
      return hit->view(TierKind::kRam, 0, UINT64_MAX);
    }
  }
  ReadLatch latch;
  read_span(entry, identity->size_bytes, {0, identity->size_bytes}, ReadHint::kNow, false,
            [&latch](Result<View> result) { latch.set(std::move(result)); });
  return latch.wait();
}

void StoreImpl::read_async(EntryId entry, ReadCallback done, ReadHint hint) {
  const Result<Identity> identity = identity_of(entry);
  if (!identity) return done(tl::unexpected<Error>(identity.error()));
  read_span(entry, identity->size_bytes, {0, identity->size_bytes}, hint, false, std::move(done));
}

void StoreImpl::read_range_async(EntryId entry, std::uint64_t offset, std::uint64_t length, ReadCallback done) {
  const Result<Identity> identity = identity_of(entry);
  if (!identity) return done(tl::unexpected<Error>(identity.error()));
  const std::uint64_t size = identity->size_bytes;
  const std::uint64_t start = std::min(offset, size);
  read_span(entry, size, {start, std::min(length, size - start)}, ReadHint::kNow, true, std::move(done));
}

void StoreImpl::read_span(EntryId entry, std::uint64_t file_bytes, ChunkRange span, ReadHint hint, bool ranged,
                          ReadCallback done) {
  reads_.fetch_add(1, std::memory_order_relaxed);
  if (span.length == 0) return done(View{});
  const std::uint32_t first = chunk_at(file_bytes, span.offset);
  const std::uint32_t last = chunk_at(file_bytes, span.offset + span.length - 1);
  if (first == last) {
    const std::uint64_t offset = span.offset - chunk_range(file_bytes, first).offset;
    // Whole, even if it grows just now.
    const std::uint64_t length = span.length == file_bytes ? UINT64_MAX : span.length;
    const ChunkRequest request{
        .key = {entry, first}, .offset = offset, .length = length, .hint = hint, .ranged = ranged};
    is_part(request, file_bytes) ? read_part(request, std::move(done)) : read_chunk(request, std::move(done));
  } else {
    (new GatheredRead(*this, entry, file_bytes, span, hint, ranged, std::move(done)))->start();
  }
  if (ranged && is_chunked(file_bytes)) read_ahead_of(entry, file_bytes, last);
}

// A stream goes on where a part ended, and what is worth keeping is read from where a part began: both want the chunk.
bool StoreImpl::is_part(const ChunkRequest& request, std::uint64_t file_bytes) {
  if (!request.ranged || tiers_.empty() || !is_chunked(file_bytes) || request.length > kPartBytesMax) return false;
  if (ram_.contains(request.key)) return false;
  const auto hash_of_place = [&](std::uint64_t offset) {
    return hash_of(request.key) ^ (offset + 1) * 0x9e3779b97f4a7c15U;
  };
  const auto seen = [&](std::uint64_t place) -> std::atomic<std::uint64_t>& {
    return recent_places_[(place >> 32) % recent_places_.size()];
  };
  const std::uint64_t begin = hash_of_place(request.offset);
  const std::uint64_t end = hash_of_place(request.offset + request.length);
  const bool known = seen(begin).exchange(begin, std::memory_order_relaxed) == begin;
  seen(end).store(end, std::memory_order_relaxed);
  return !known;
}

void StoreImpl::read_part(const ChunkRequest& request, ReadCallback done) {
  const Result<Identity> identity = identity_of(request.key.entry);
  if (!identity) return done(tl::unexpected<Error>(identity.error()));
  const RecordId record{hash_name(catalog_.path(request.key.entry), request.key.chunk), request.key.chunk, *identity};
  if (!is_held(record)) return read_chunk(request, std::move(done));
  (new PartRead(*this, request, record, std::move(done)))->start();
}

// A stream is recognised by what it left behind: the chunk before this one.
void StoreImpl::read_ahead_of(EntryId entry, std::uint64_t file_bytes, std::uint32_t chunk) {
  if (chunk == 0 || !ram_.contains({entry, chunk - 1})) return;
  for (std::uint32_t next = chunk + 1; next <= chunk + kChunksAhead && next < chunk_count(file_bytes); ++next) {
    if (ram_.contains({entry, next})) continue;
    read_chunk({.key = {entry, next}, .hint = ReadHint::kAhead, .ranged = true}, [](const Result<View>&) {});
  }
}

void StoreImpl::read_chunk(const ChunkRequest& request, ReadCallback done) {
  const bool keep = request.hint == ReadHint::kAheadAndKeep;
  if (Holding* hit = ram_.pin(request.key, keep)) {
    note_use_in_memory(request);
    return done(hit->view(TierKind::kRam, request.offset, request.length));
  }
  auto fresh = std::make_unique<Holding>(ram_, request.key);
  fresh->keep = keep;
  fresh->once = request.hint == ReadHint::kOnce || request.hint == ReadHint::kOnceHere;
  fresh->ranged = request.ranged;
  auto waiter = std::make_unique<Waiter>();
  waiter->offset = request.offset;
  waiter->length = request.length;
  waiter->done = std::move(done);

  const RamTier::Claim claim = ram_.claim(std::move(fresh), *waiter);
  switch (claim.outcome) {
    case RamTier::Claim::Outcome::kReady:
      note_use_in_memory(request);
      return waiter->done(claim.holding->view(TierKind::kRam, request.offset, request.length));
    case RamTier::Claim::Outcome::kWaiting:
      static_cast<void>(waiter.release());  // the fetch answers it
      shared_fetches_.fetch_add(1, std::memory_order_relaxed);
      note_use_in_memory(request);
      return;
    case RamTier::Claim::Outcome::kOwner:
      static_cast<void>(waiter.release());
      return start_fetch(*claim.holding, request);
  }
}

// The identity is looked up now that the holding can be found: a change that comes later finds and forgets it.
void StoreImpl::start_fetch(Holding& holding, const ChunkRequest& request) {
  const Result<Identity> identity = identity_of(request.key.entry);
  auto* fetch = new Fetch(*this, holding, identity.value_or(Identity{}), request);
  if (!identity) return fetch->denied(identity.error());
  if (placement_->watches() && request.key.chunk == 0 && !request.for_warm_job) note_use(request.key.entry);
  fetch->start();
}

void StoreImpl::answer(Waiter* waiters, Holding& holding, TierKind from) {
  while (waiters != nullptr) {
    const std::unique_ptr<Waiter> waiter(std::exchange(waiters, waiters->next));
    waiter->done(holding.view(from, waiter->offset, waiter->length));
  }
}

void StoreImpl::answer_error(Waiter* waiters, const Error& error) {
  while (waiters != nullptr) {
    const std::unique_ptr<Waiter> waiter(std::exchange(waiters, waiters->next));
    failures_.fetch_add(1, std::memory_order_relaxed);
    waiter->done(tl::unexpected<Error>(error));
  }
}

void StoreImpl::prefetch(EntryId entry, bool keep_in_ram, std::function<void(Status)> done) {
  if (ram_.budget_bytes() == 0) {
    return warm(entry, [done = std::move(done)](Status status) {
      const bool nowhere_to_put = !status && status.error().code == ErrorCode::kNoSpace;
      done(nowhere_to_put ? Status{} : std::move(status));
    });
  }
  read_async(
      entry,
      [done = std::move(done)](Result<View> result) {
        done(result ? Status{} : Status(io::forward_error(std::move(result))));
      },
      keep_in_ram ? ReadHint::kAheadAndKeep : ReadHint::kAhead);
}

void StoreImpl::warm(EntryId entry, std::function<void(Status)> done) {
  const Result<Identity> identity = identity_of(entry);
  if (!identity) return done(tl::unexpected<Error>(identity.error()));
  if (placement_->evicts()) offer(entry);
  (new WarmJob(*this, entry, *identity, std::move(done)))->run();
}

bool StoreImpl::is_on_disk(EntryId entry) const {
  const Result<Identity> identity = identity_of(entry);
  if (!identity) return false;
  const std::string path = catalog_.path(entry);
  for (std::uint32_t chunk = 0; identity->size_bytes > 0 && chunk < chunk_count(identity->size_bytes); ++chunk) {
    if (!is_held({hash_name(path, chunk), chunk, *identity})) return false;
  }
  return true;
}

bool StoreImpl::is_held(const RecordId& record) const {
  return std::any_of(tiers_.begin(), tiers_.end(), [&](const auto& tier) { return tier->contains(record); });
}

void StoreImpl::copy_to_tier(Holding& holding, const RecordId& record, std::size_t end) {
  if (closing_.load()) return;
  const std::uint64_t budget = ram_.budget_bytes();
  const std::uint64_t pending_max = budget > 0 ? std::min(kWriteBehindBytesMax, budget / 4) : kWriteBehindBytesMax;
  for (std::size_t i = 0; i < std::min(end, tiers_.size()); ++i) {
    DiskTier& tier = *tiers_[i];
    if (!tier.admits(holding.size) || !wants(i, holding.key.entry)) continue;
    if (tier.contains(record)) return;
    if (tier.pending_bytes() + holding.cost_bytes > pending_max) return;  // the next epoch brings it again
    if (!ram_.pin_for_write(holding)) return;
    return tier.write(holding, record, [this, i, end, record, entry = holding.key.entry](const Status& status) {
      if (!status) return;
      if (end < tiers_.size()) tiers_[end]->forget(record);  // promoted
      if (!wants(i, entry)) tiers_[i]->forget(record);       // evicted while it was being written
    });
  }
}

void StoreImpl::drop(EntryId entry) {
  const std::uint32_t chunks = chunks_of(entry);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) ram_.drop({entry, chunk});
}

void StoreImpl::unkeep(EntryId entry) {
  const std::uint32_t chunks = chunks_of(entry);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) ram_.unkeep({entry, chunk});
}

std::uint32_t StoreImpl::chunks_of(EntryId entry) const {
  const Result<Identity> identity = identity_of(entry);
  return identity ? chunk_count(identity->size_bytes) : 1;
}

void StoreImpl::set_identity(EntryId entry, const Identity& identity) {
  set_changed(entry, identity);
}
void StoreImpl::set_vanished(EntryId entry) {
  set_changed(entry, std::nullopt);
}

void StoreImpl::set_changed(EntryId entry, const std::optional<Identity>& identity) {
  const std::uint32_t old_chunks = chunks_of(entry);
  {
    MutexLock lock(changed_mutex_);
    changed_[entry] = identity;
    any_changed_.store(true);
  }
  for (std::uint32_t chunk = 0; chunk < old_chunks; ++chunk) ram_.forget({entry, chunk});
}

Result<Identity> StoreImpl::identity_of(EntryId entry) const {
  if (entry >= catalog_.entry_count() || !catalog_.is_file(entry)) {
    return io::make_error(ErrorCode::kInvalidArgument, fmt::format("read: entry {} is not a file", entry));
  }
  if (any_changed_.load(std::memory_order_acquire)) {
    MutexLock lock(changed_mutex_);
    const auto found = changed_.find(entry);
    const bool changed = found != changed_.end();
    if (changed && found->second) return *found->second;
    lock.unlock();
    if (changed) {
      return io::make_error(ErrorCode::kNotFound, fmt::format("read {}: gone from the source", catalog_.path(entry)));
    }
  }
  return catalog_.identity(entry);
}

Status StoreImpl::flush() {
  Status outcome;
  for (const auto& tier : tiers_) {
    if (auto flushed = tier->flush(); !flushed && outcome) outcome = std::move(flushed);
  }
  return outcome;
}

StoreStats StoreImpl::stats() const {
  StoreStats stats;
  const RamTier::Stats ram = ram_.stats();
  stats.tiers.push_back(
      {.kind = TierKind::kRam,
       .budget_bytes = ram_.budget_bytes(),
       .used_bytes = ram_.used_bytes(),
       .samples = ram.samples,
       .hits = ram.hits,
       .hit_bytes = ram.hit_bytes,
       .writes = ram.admitted,
       .write_bytes = ram.admitted_bytes,
       .evictions = ram.evictions,
       .placement = ram_.budget_bytes() > 0 ? "what is read ahead is kept, the rest S3-FIFO" : "views only",
       .state = "ok"});
  for (const auto& tier : tiers_) {
    stats.tiers.push_back(tier->stats());
    stats.tiers.back().placement = placement_->describe();
  }
  stats.tiers.push_back(source_->stats());
  stats.reads = reads_.load(std::memory_order_relaxed);
  stats.shared_fetches = shared_fetches_.load(std::memory_order_relaxed);
  stats.failures = failures_.load(std::memory_order_relaxed);
  stats.engine = source_->engine();
  stats.epoch_reads = epoch_reads();
  return stats;
}

}  // namespace headrace::cache
