// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/store.h"

#include <algorithm>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include <pthread.h>
#include <xxhash.h>

#include "headrace/cache/revalidate.h"
#include "headrace/cache/source/open_source.h"
#include "headrace/cache/store/fetch.h"
#include "headrace/cache/store/fill.h"
#include "headrace/cache/store/gathered_read.h"
#include "headrace/cache/store/lean_read.h"
#include "headrace/cache/store/part_read.h"
#include "headrace/cache/store/range_choice.h"
#include "headrace/cache/store/store_parts.h"
#include "headrace/io/buffer.h"
#include "headrace/io/mutex.h"

namespace headrace::cache {
namespace {

using io::CondVar;
using io::Error;
using io::Mutex;
using io::MutexLock;

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

std::string canonical_name(const StoreOptions& options) {
  // The path only names it then, and may lie under a mount that does not answer yet.
  if (options.source_fd >= 0 || is_object_url(options.source.native())) return options.source.string();
  std::error_code unresolved;  // then the name as given identifies the data set
  const auto canonical = std::filesystem::weakly_canonical(options.source, unresolved);
  return unresolved ? options.source.string() : canonical.string();
}

std::shared_ptr<KnownFiles> files_of(const Catalog& catalog) {
  auto files = std::make_shared<KnownFiles>(catalog.entry_count());
  for (EntryId entry = 0; entry < catalog.entry_count(); ++entry) files->add(hash_identity(catalog.identity(entry)));
  return files;
}

SourceOptions source_options(const StoreOptions& options) {
  return {.path = options.source,
          .bucket = options.bucket,
          .directory_fd = options.source_fd,
          .path_covered = options.source_path_covered,
          .catalog_file = options.catalog_file,
          .catalog_may_be_old = options.catalog_may_be_old,
          .on_listing = options.on_listing,
          .engine = options.engine,
          .rotational = options.source_rotational,
          .make_engine = options.make_source_engine};
}

class StoreImpl final : public Store {
 public:
  StoreImpl(Catalog catalog, std::filesystem::path catalog_file, std::uint64_t ram_bytes)
      : catalog_file_(std::move(catalog_file)), parts_(std::move(catalog), ram_bytes) {}
  ~StoreImpl() override;
  [[nodiscard]] Status start(const StoreOptions& options, const OpenedSource& opened);

  [[nodiscard]] const Catalog& catalog() const override { return parts_.catalog; }
  [[nodiscard]] Result<Identity> identity(EntryId entry) const override { return parts_.identities.of(entry); }
  [[nodiscard]] std::optional<bool> has_acl(EntryId entry) const override;
  [[nodiscard]] Result<CatalogChanges> find_changes(const RevalidateOptions& options) const override;
  [[nodiscard]] Result<View> read(EntryId entry) override;
  void read_async(EntryId entry, ReadCallback done, ReadHint hint) override;
  void read_range_async(EntryId entry, std::uint64_t offset, std::uint64_t length, ReadCallback done,
                        ReadHint hint) override;
  void drop(EntryId entry) override;
  void evict(EntryId entry) override;
  void hurry(EntryId entry) override;
  void release(EntryId entry) override;
  void set_ram_bytes(std::uint64_t bytes) override { parts_.ram.set_budget(bytes); }
  void set_identity(EntryId entry, const Identity& identity) override { parts_.set_identity(entry, identity); }
  void set_vanished(EntryId entry) override { parts_.set_identity(entry, std::nullopt); }
  [[nodiscard]] AttributeClass attributes(EntryId entry) const override { return parts_.identities.attributes(entry); }
  void set_attributes(EntryId entry, const AttributeClass& attributes) override {
    parts_.set_attributes(entry, attributes);
  }
  void tell_attributes(EntryId entry) override { parts_.tell_attributes(entry); }
  [[nodiscard]] Status look_at(EntryId entry) override;
  void set_compared() override { parts_.identities.confirm_all(); }
  [[nodiscard]] CatalogChanges changes() const override { return parts_.identities.changes(); }
  void set_change_listener(ChangeListener listener) override;
  void warm(EntryId entry, std::function<void(Status)> done) override;
  [[nodiscard]] bool is_on_disk(EntryId entry) const override;
  [[nodiscard]] bool is_range_on_disk(EntryId entry, std::uint64_t offset, std::uint64_t length) const override;
  void share(EntryId entry, std::function<void(Status)> done) override;
  [[nodiscard]] Status set_peers(const std::vector<std::string>& peers) override;
  [[nodiscard]] std::unique_ptr<Following> follow(const Order& order, const FollowOptions& options) override {
    return parts_.follower->follow(order, options);
  }
  [[nodiscard]] Status flush() override;
  [[nodiscard]] StoreStats stats() const override;

 private:
  [[nodiscard]] Status open_tiers(const StoreOptions& options);
  void start_read(const SpanRequest& request, ReadCallback done);
  void start_range(const SpanRequest& request, ReadCallback done);
  void read_ahead_of(EntryId entry, std::uint64_t file_bytes, std::uint32_t chunk);

  const std::filesystem::path catalog_file_;  // empty: catalogs are not saved
  StoreParts parts_;
  RangeChoice range_choice_;
};

Status StoreImpl::start(const StoreOptions& options, const OpenedSource& opened) {
  HEADRACE_TRY(source, opened.open_reads(parts_.timers));
  parts_.source = std::move(source);
  HEADRACE_TRY_DO(open_tiers(options));
  if (!options.shared.peers.empty()) {
    HEADRACE_TRY(shared, SharedTier::open(options.shared, canonical_name(options), parts_.catalog, parts_.ram));
    parts_.shared = std::move(shared);
  }
  parts_.follower = std::make_unique<TierFollower>(TierFollower::Parts{
      parts_.catalog, parts_.identities, parts_.tiers, parts_.ram, *parts_.source, parts_.shared.get()});
  return {};
}

std::optional<bool> StoreImpl::has_acl(EntryId entry) const {
  return parts_.source->tree()->has_acl(parts_.catalog.path(entry));
}

Result<CatalogChanges> StoreImpl::find_changes(const RevalidateOptions& options) const {
  HEADRACE_TRY(changes, parts_.source->tree()->find_changes(parts_.catalog, options));
  if (changes.next && !catalog_file_.empty()) keep_catalog(*changes.next, catalog_file_);
  return changes;
}

Status StoreImpl::open_tiers(const StoreOptions& options) {
  const std::string name = canonical_name(options);
  const std::uint64_t storage = parts_.source->tree()->storage_id();  // another one there is another data set
  const std::uint64_t key = XXH3_64bits_withSeed(name.data(), name.size(), storage);
  if (!options.tiers.empty()) parts_.known_files = files_of(parts_.catalog);
  for (const TierOptions& tier : options.tiers) {
    HEADRACE_TRY(opened, DiskTier::open({.tier = tier,
                                         .data_set = {key, name},
                                         .engine = options.engine,
                                         .make_engine = options.make_tier_engine,
                                         .known_files = parts_.known_files,
                                         .may_be_busy = options.catalog_fd >= 0},
                                        parts_.ram, parts_.timers));
    parts_.tiers.push_back(std::move(opened));
  }
  return {};
}

// From the front to the back: nothing new may start behind what has ended already. After settle() every thread has seen
// `closing`, so that no completion starts another step; then what is left is cancelled.
StoreImpl::~StoreImpl() {
  for (const auto& tier : parts_.tiers) tier->close();
  parts_.closing.store(true);
  parts_.memory.close();
  if (parts_.shared) parts_.shared->join();
  if (parts_.source == nullptr) return;
  parts_.source->stop_retrying();
  parts_.timers.stop();
  parts_.source->settle();
  for (const auto& tier : parts_.tiers) tier->settle();
  parts_.source->join();
  for (const auto& tier : parts_.tiers) tier->join();
}

Result<View> StoreImpl::read(EntryId entry) {
  HEADRACE_TRY(identity, parts_.identities.of_file(entry));
  if (!is_chunked(identity.size_bytes)) {
    const ChunkRequest request{.key = {entry, 0}};
    if (auto held = read_from_memory(parts_, request)) {
      parts_.reads.fetch_add(1, std::memory_order_relaxed);
      return std::move(*held);
    }
  }
  ReadLatch latch;
  read_async(
      entry, [&latch](Result<View> result) { latch.set(std::move(result)); }, ReadHint::kNow);
  return latch.wait();
}

void StoreImpl::read_async(EntryId entry, ReadCallback done, ReadHint hint) {
  const Result<Identity> identity = parts_.identities.of_file(entry);
  if (!identity) return done(tl::unexpected<Error>(identity.error()));
  const std::uint64_t size = identity->size_bytes;
  start_read({.entry = entry, .identity = *identity, .span = {0, size}, .hint = hint}, std::move(done));
}

void StoreImpl::read_range_async(EntryId entry, std::uint64_t offset, std::uint64_t length, ReadCallback done,
                                 ReadHint hint) {
  const Result<Identity> identity = parts_.identities.of_file(entry);
  if (!identity) return done(tl::unexpected<Error>(identity.error()));
  const std::uint64_t size = identity->size_bytes;
  const std::uint64_t start = std::min(offset, size);
  const ChunkRange span{start, std::min(length, size - start)};
  start_read({.entry = entry, .identity = *identity, .span = span, .hint = hint, .ranged = true}, std::move(done));
}

void StoreImpl::start_read(const SpanRequest& request, ReadCallback done) {
  parts_.reads.fetch_add(1, std::memory_order_relaxed);
  if (request.ranged && request.span.length > 0) return start_range(request, std::move(done));
  read_span(parts_, request, std::move(done));
}

void StoreImpl::start_range(const SpanRequest& request, ReadCallback done) {
  const RangeChoice::Way way = range_choice_.choose(parts_, request);
  if (way.how == RangeChoice::How::kLean) return read_lean(parts_, request, std::move(done));
  SpanRequest by_chunks = request;
  // A chunk takes longer than whoever reads a range may be kept from other requests.
  if (request.hint == ReadHint::kNowHere) by_chunks.hint = ReadHint::kNow;
  const std::uint64_t file_bytes = request.identity.size_bytes;
  const ChunkRange& span = request.span;
  if (way.how == RangeChoice::How::kPart) {
    return read_part(parts_, part_in_chunk(by_chunks, chunk_at(file_bytes, span.offset)), std::move(done));
  }
  read_span(parts_, by_chunks, std::move(done));
  if (way.in_stream) read_ahead_of(request.entry, file_bytes, chunk_at(file_bytes, span.offset + span.length - 1));
}

// Where the chunk before has gone already, chunks ahead would go before their reader comes, too.
void StoreImpl::read_ahead_of(EntryId entry, std::uint64_t file_bytes, std::uint32_t chunk) {
  if (chunk == 0 || parts_.memory.is_crowded() || !parts_.ram.contains({entry, chunk - 1})) return;
  for (std::uint32_t next = chunk + 1; next <= chunk + kChunksAhead && next < chunk_count(file_bytes); ++next) {
    if (parts_.ram.contains({entry, next})) continue;
    read_chunk(parts_,
               {.key = {entry, next}, .is_cut = is_chunked(file_bytes), .hint = ReadHint::kAhead, .ranged = true},
               [](const Result<View>&) {});
  }
}

void StoreImpl::warm(EntryId entry, std::function<void(Status)> done) {
  const Result<Identity> identity = parts_.identities.of_file(entry);
  if (!identity) return done(tl::unexpected<Error>(identity.error()));
  if (!is_on_disk(entry)) parts_.follower->offer(entry);
  fill_disk_tiers(parts_, entry, *identity, std::move(done));
}

void StoreImpl::share(EntryId entry, std::function<void(Status)> done) {
  const Result<Identity> identity = parts_.identities.of_file(entry);
  if (!identity) return done(tl::unexpected<Error>(identity.error()));
  fill_peer(parts_, entry, *identity, std::move(done));
}

Status StoreImpl::set_peers(const std::vector<std::string>& peers) {
  if (parts_.shared) return parts_.shared->set_peers(peers);
  return io::make_error(io::ErrorCode::kInvalidArgument, "nothing is shared; peers and the share are given on opening");
}

bool StoreImpl::is_on_disk(EntryId entry) const {
  const Result<Identity> identity = parts_.identities.of_file(entry);
  if (!identity) return false;
  const std::string path = parts_.catalog.path(entry);
  for (std::uint32_t chunk = 0; identity->size_bytes > 0 && chunk < chunk_count(identity->size_bytes); ++chunk) {
    if (!parts_.held_on_disk({hash_name(path, chunk), chunk, *identity})) return false;
  }
  return true;
}

bool StoreImpl::is_range_on_disk(EntryId entry, std::uint64_t offset, std::uint64_t length) const {
  const Result<Identity> identity = parts_.identities.of_file(entry);
  if (!identity || length == 0 || offset + length > identity->size_bytes) return false;
  const SpanRequest alone{
      .entry = entry, .identity = *identity, .span = {offset, length}, .hint = ReadHint::kAheadAlone, .ranged = true};
  if (is_kept_range(parts_, alone) && parts_.held_on_disk(range_record(parts_, alone))) return true;
  const std::string path = parts_.catalog.path(entry);
  const std::uint32_t last = chunk_at(identity->size_bytes, offset + length - 1);
  for (std::uint32_t chunk = chunk_at(identity->size_bytes, offset); chunk <= last; ++chunk) {
    if (!parts_.held_on_disk({hash_name(path, chunk), chunk, *identity})) return false;
  }
  return true;
}

void StoreImpl::hurry(EntryId entry) {
  for (const RamTier::Wanted& move : parts_.mover.want(entry)) hurry_move(parts_, move);
}

void StoreImpl::drop(EntryId entry) {
  const std::uint32_t chunks = parts_.identities.chunks_of(entry);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) parts_.ram.drop({entry, chunk});
}

void StoreImpl::evict(EntryId entry) {
  drop(entry);
  const std::string path = parts_.catalog.path(entry);
  const std::uint32_t chunks = parts_.identities.chunks_of(entry);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    for (const auto& tier : parts_.tiers) tier->drop({hash_name(path, chunk), chunk, {}});
  }
}

void StoreImpl::release(EntryId entry) {
  const std::uint32_t chunks = parts_.identities.chunks_of(entry);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) parts_.ram.unkeep({entry, chunk});
}

Status StoreImpl::look_at(EntryId entry) {
  const Result<Identity> known = parts_.identities.of(entry);
  return parts_.look_at(entry, known ? std::optional(*known) : std::nullopt);
}

void StoreImpl::set_change_listener(ChangeListener listener) {
  MutexLock lock(parts_.change_mutex);
  parts_.change_listener = std::move(listener);
}

Status StoreImpl::flush() {
  Status outcome;
  for (const auto& tier : parts_.tiers) {
    if (auto flushed = tier->flush(); !flushed && outcome) outcome = std::move(flushed);
  }
  return outcome;
}

TierStats ram_stats(const RamTier& ram) {
  const RamTier::Stats counted = ram.stats();
  return {.kind = TierKind::kRam,
          .budget_bytes = ram.budget_bytes(),
          .used_bytes = ram.used_bytes(),
          .samples = counted.samples,
          .hits = counted.hits,
          .hit_bytes = counted.hit_bytes,
          .writes = counted.admitted,
          .write_bytes = counted.admitted_bytes,
          .evictions = counted.evictions,
          .placement = ram.budget_bytes() > 0 ? "what is read ahead is kept, the rest S3-FIFO" : "views only",
          .state = "ok"};
}

StoreStats StoreImpl::stats() const {
  StoreStats stats;
  stats.tiers.push_back(ram_stats(parts_.ram));
  for (const auto& tier : parts_.tiers) {
    stats.tiers.push_back(tier->stats());
    stats.tiers.back().placement = parts_.follower->describe();
  }
  if (parts_.shared) {
    stats.peers = parts_.shared->peer_stats();
    stats.tiers.push_back(parts_.shared->stats());
  }
  stats.tiers.push_back(parts_.source->stats());
  stats.reads = parts_.reads.load(std::memory_order_relaxed);
  stats.shared_fetches = parts_.shared_fetches.load(std::memory_order_relaxed);
  stats.failures = parts_.failures.load(std::memory_order_relaxed);
  stats.engine = parts_.source->engine();
  stats.bucket = parts_.source->bucket_stats();
  stats.epoch_reads = parts_.follower->epoch_reads();
  return stats;
}

}  // namespace

Result<Catalog> open_catalog(const StoreOptions& options) {
  HEADRACE_TRY(source, open_source(source_options(options)));
  return source.tree->open_catalog(options.catalog, options.catalog_file);
}

Result<std::unique_ptr<Store>> Store::open(const StoreOptions& options) {
  const std::future<void> first_buffers = provide_first_buffers(options.ram_bytes);
  HEADRACE_TRY(source, open_source(source_options(options)));
  HEADRACE_TRY(catalog, options.catalog_fd >= 0 ? Catalog::load_fd(options.catalog_fd)
                                                : source.tree->open_catalog(options.catalog, options.catalog_file));
  auto store = std::make_unique<StoreImpl>(std::move(catalog), options.catalog_file, options.ram_bytes);
  HEADRACE_TRY_DO(store->start(options, source));
  return store;
}

}  // namespace headrace::cache
