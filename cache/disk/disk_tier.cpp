// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/disk/disk_tier.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>
#include <xxhash.h>

#include "headrace/io/log.h"
#include "headrace/io/open_files.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;

constexpr std::uint64_t kTierBytesMin = 4ULL << 20;
// 16 TiB: a record's block number within the tier has 32 bits (RecordSlot).
constexpr std::uint64_t kTierBytesMax = kBlockBytes << 32;
// 256 MiB: few files, and what a restart has to scan (the segment that was being filled) takes a second or two at most.
// Small budgets get sixteen segments, so that making room costs a sixteenth; a record must fit into one.
constexpr std::uint64_t kSegmentBytesMax = 256ULL << 20;
constexpr std::uint64_t kSegmentBytesMin = 1ULL << 20;
constexpr std::uint64_t kSegmentsAtLeast = 16;
// How often a busy tier is looked at: a look takes microseconds, and who holds a lock does so for longer.
constexpr std::chrono::seconds kAttachInterval{1};

std::uint64_t segment_bytes_for(std::uint64_t budget_bytes) {
  const std::uint64_t wanted = budget_bytes / kSegmentsAtLeast / kSegmentBytesMin * kSegmentBytesMin;
  return std::clamp(wanted, kSegmentBytesMin, kSegmentBytesMax);
}

Result<TierFolder> open_folder(const TierOptions& options) {
  const std::string path = options.path.string();
  if (options.budget_bytes < kTierBytesMin) {
    return io::make_error(ErrorCode::kInvalidArgument,
                          fmt::format("tier {}: a budget of {} bytes is too small, {} is the least", path,
                                      options.budget_bytes, kTierBytesMin));
  }
  if (options.budget_bytes > kTierBytesMax) {
    return io::make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("tier {}: a budget of {} bytes is too large, 16 TiB ({}) is the most; give the rest "
                    "to a second tier in another folder",
                    path, options.budget_bytes, kTierBytesMax));
  }
  HEADRACE_TRY(folder,
               TierFolder::open(options.path, segment_bytes_for(options.budget_bytes), TierFolder::Mode::kCreate));
  if (folder.label().segment_bytes > options.budget_bytes) {
    return io::make_error(ErrorCode::kInvalidArgument,
                          fmt::format("tier {}: its segments have {} bytes, more than the budget; remove the tier or "
                                      "raise the budget",
                                      path, folder.label().segment_bytes));
  }
  return folder;
}

}  // namespace

std::uint64_t hash_name(std::string_view path, std::uint32_t chunk) {
  return XXH3_64bits_withSeed(path.data(), path.size(), chunk);
}

std::uint64_t hash_name(std::string_view path, const ChunkRange& range) {
  static_assert(sizeof(ChunkRange) == 16, "hashed as it lies in memory: no padding");
  const std::uint64_t seed = XXH3_64bits(&range, sizeof range) | (1ULL << 63);  // the number of a chunk has 32 bits
  return XXH3_64bits_withSeed(path.data(), path.size(), seed);
}

std::uint64_t hash_identity(const Identity& identity) {
  static_assert(sizeof(Identity) == 32, "hashed as it lies in memory: no padding");
  return XXH3_64bits(&identity, sizeof identity);
}

// Opening and closing.

Result<std::unique_ptr<DiskTier>> DiskTier::open(const DiskTierOptions& options, RamTier& ram,
                                                 io::TimerThread& timers) {
  Result<TierFolder> folder = open_folder(options.tier);
  const bool is_busy = !folder && folder.error().code == ErrorCode::kBusy;
  if (!folder && !(is_busy && options.may_be_busy)) return io::forward_error(std::move(folder));
  std::unique_ptr<DiskTier> tier(new DiskTier(options, ram, timers));
  HEADRACE_TRY(threads, TierThreads::start(
                            {.kind = options.tier.kind, .engine = options.engine, .make_engine = options.make_engine}));
  tier->threads_ = std::move(threads);
  if (folder) {
    HEADRACE_TRY_DO(tier->attach(std::move(*folder)));
    return tier;
  }
  tier->state_.note_busy(folder.error());
  tier->attach_thread_ = std::thread([self = tier.get()] {
    ::pthread_setname_np(::pthread_self(), "hr-attach");
    self->attach_when_free();
  });
  return tier;
}

Status DiskTier::attach(TierFolder folder) {
  io::allow_open_files(options_.budget_bytes / folder.label().segment_bytes);  // 1024 are 256 GiB
  HEADRACE_TRY(log, SegmentLog::open(std::move(folder),
                                     {options_.budget_bytes, data_set_, options_.keep_free_bytes, known_files_}, state_,
                                     *threads_));
  log_ = std::move(log);
  cleaner_ = std::make_unique<Cleaner>(*log_, state_, threads_->writer());
  log_->save_periodically(timers_);
  log_->watch_free_space(timers_);
  attached_.store(true, std::memory_order_release);
  if (evicting_.load()) log_->set_evicting(true);
  return {};
}

void DiskTier::attach_when_free() {
  while (wait_for_next_try()) {
    if (TierFolder::is_locked(options_.path)) continue;
    Result<TierFolder> folder = open_folder(options_);
    if (!folder && folder.error().code == ErrorCode::kBusy) continue;  // somebody was quicker
    const Status attached = folder ? attach(std::move(*folder)) : io::forward_error(std::move(folder));
    return attached ? state_.note_free() : state_.note_unusable(attached.error());
  }
}

// False: the tier is closed.
bool DiskTier::wait_for_next_try() {
  const auto until = std::chrono::steady_clock::now() + kAttachInterval;
  io::MutexLock lock(attach_mutex_);
  while (!stops_attaching_ && std::chrono::steady_clock::now() < until) attach_wake_.wait_until(lock, until);
  return !stops_attaching_;
}

void DiskTier::close() {
  if (attach_thread_.joinable()) {
    {
      io::MutexLock lock(attach_mutex_);
      stops_attaching_ = true;
      attach_wake_.notify_all();
    }
    attach_thread_.join();
  }
  if (state_.close() && is_attached()) log_->finish();
}

void DiskTier::set_evicting(bool evicting) {
  evicting_.store(evicting);
  if (is_attached()) log_->set_evicting(evicting);
}

// Of one that is busy: as of a tier that is made now.
std::uint64_t DiskTier::evicting_bytes() const {
  if (is_attached()) return log_->evicting_bytes();
  const std::uint64_t segment_bytes = segment_bytes_for(options_.budget_bytes);
  return SegmentLog::evicting_bytes_of(options_.budget_bytes / segment_bytes, segment_bytes);
}

void DiskTier::join() {
  if (is_attached()) log_->unregister_files();
  threads_->stop();
}

DiskTier::~DiskTier() {
  close();
}

// Looking up and reading.

namespace {

std::uint64_t payload_bytes_of(const RecordId& record) {
  return record.range_bytes > 0 ? record.range_bytes : chunk_range(record.identity.size_bytes, record.chunk).length;
}

}  // namespace

bool DiskTier::contains(const RecordId& record) const {
  if (!is_attached() || !state_.is_read()) return false;
  const auto slot = log_->find(log_->key_of(record.name_hash));
  return slot && slot->identity_hash == hash_identity(record.identity);
}

std::optional<FoundRecord> DiskTier::look_up(const RecordId& record) {
  if (!is_attached() || !state_.is_read()) return std::nullopt;
  const auto slot = log_->find(log_->key_of(record.name_hash));
  if (!slot) return std::nullopt;
  if (slot->identity_hash != hash_identity(record.identity)) {
    fail_record(*slot, stale_);
    return std::nullopt;
  }
  if (slot->payload_bytes != payload_bytes_of(record)) {
    fail_record(*slot, corrupt_);
    return std::nullopt;
  }
  auto segment = log_->segment_of(*slot);
  if (segment == nullptr) return std::nullopt;  // removed since it was found
  return FoundRecord{*slot, std::move(segment)};
}

// Counts only what this call took out of the index: each record fails once, whoever notices first.
void DiskTier::fail_record(const RecordSlot& slot, std::atomic<std::uint64_t>& counter) {
  if (!log_->drop(slot)) return;
  if (counter.fetch_add(1) == 0 && &counter == &corrupt_) {
    io::log_warning("tier {}: a record failed its checksum and is fetched again", log_->folder().path());
  }
}

// What cannot be read would be asked for in each epoch, wait for the device's retries each time, and count as held.
void DiskTier::lose_record(const RecordSlot& slot, const io::Error& error) {
  state_.note_read_error(error);
  if (!TierState::may_pass(error)) static_cast<void>(log_->drop(slot));
}

void DiskTier::drop(const RecordId& record) {
  if (!is_attached()) return;
  const auto slot = log_->find(log_->key_of(record.name_hash));
  if (slot && log_->drop(*slot)) evictions_.fetch_add(1);
}

bool DiskTier::read(DiskRead& read) {
  std::optional<FoundRecord> found = look_up(read.record);
  if (!found) return false;
  read.tier = this;
  read.found = std::move(*found);
  const RecordSlot& slot = read.found.slot;
  read.operation = io::Operation::read(read.found.segment->fd.get(), log_->block_of(slot) * kBlockBytes,
                                       slot.payload_bytes, std::move(read.buffer));
  read.operation.cache_mode = read.found.segment->cache_mode;
  read.operation.wanted = read.wanted;
  read.operation.context = &read;
  read.operation.on_complete = [](io::Operation& operation, Result<std::uint64_t> bytes) {
    DiskRead& self = *static_cast<DiskRead*>(operation.context);
    self.tier->end_read(self, std::move(bytes));
  };
  read.turn = threads_->take_turn();
  read.turn.thread().submit(read.operation);
  return true;
}

void DiskTier::end_read(DiskRead& read, Result<std::uint64_t> bytes) {
  const TierThreads::Turn turn = std::move(read.turn);  // until it is delivered
  const RecordSlot& slot = read.found.slot;
  read.data = read.operation.data();
  read.buffer = std::move(read.operation.buffer);
  read.found.segment.reset();
  if (!bytes) {
    lose_record(slot, bytes.error());
    return read.on_done(read, io::forward_error(std::move(bytes)));
  }
  state_.note_good_read();
  if (*bytes != slot.payload_bytes || hash_payload({read.data, slot.payload_bytes}) != slot.payload_hash) {
    // If the segment was removed and its place taken by another meanwhile, nothing is damaged.
    fail_record(slot, corrupt_);
    return read.on_done(read, io::make_error(ErrorCode::kCorrupt, "read from tier " + log_->folder().path()));
  }
  hits_.fetch_add(1, std::memory_order_relaxed);
  hit_bytes_.fetch_add(*bytes, std::memory_order_relaxed);
  read.on_done(read, {});
}

// Parts of records.

namespace {

std::uint64_t first_piece(const ChunkRange& range) {
  return range.offset / kPieceBytes;
}
std::uint64_t end_piece(const ChunkRange& range) {
  return (range.offset + range.length + kPieceBytes - 1) / kPieceBytes;
}

}  // namespace

std::uint64_t part_buffer_bytes(const ChunkRange& range) {
  return std::max<std::uint64_t>(kBlockBytes, (end_piece(range) - first_piece(range)) * kPieceBytes);
}

bool DiskTier::read_part(DiskPart& part) {
  std::optional<FoundRecord> found = look_up(part.record);
  if (!found || !has_pieces(found->slot.payload_bytes)) return false;
  if (part.range.offset + part.range.length > found->slot.payload_bytes) return false;  // the file changed just now
  part.tier = this;
  part.turn = threads_->take_turn();
  part.found = std::move(*found);
  const RecordSlot& slot = part.found.slot;
  const std::uint64_t last_block = log_->block_of(slot) + blocks_of(slot.payload_bytes) - 1;
  submit_part(part, {last_block * kBlockBytes, kBlockBytes}, [](io::Operation& operation, Result<std::uint64_t> bytes) {
    DiskPart& self = *static_cast<DiskPart*>(operation.context);
    self.tier->end_read_of_hashes(self, std::move(bytes));
  });
  return true;
}

void DiskTier::submit_part(DiskPart& part, const ChunkRange& in_segment,
                           void (*on_complete)(io::Operation& operation, Result<std::uint64_t> bytes)) {
  part.operation =
      io::Operation::read(part.found.segment->fd.get(), in_segment.offset, in_segment.length, std::move(part.buffer));
  part.operation.cache_mode = part.found.segment->cache_mode;
  part.operation.wanted = part.wanted;
  part.operation.context = &part;
  part.operation.on_complete = on_complete;
  part.turn.thread().submit(part.operation);
}

void DiskTier::end_part(DiskPart& part, const Status& status) {
  const TierThreads::Turn turn = std::move(part.turn);  // until it is delivered
  part.buffer = std::move(part.operation.buffer);
  part.found.segment.reset();
  part.on_done(part, status);
}

void DiskTier::end_read_of_hashes(DiskPart& part, Result<std::uint64_t> bytes) {
  if (!bytes) {
    lose_record(part.found.slot, bytes.error());
    return end_part(part, io::forward_error(std::move(bytes)));
  }
  if (!take_hashes(part, *bytes)) {  // written by an earlier version, damaged, or another segment is there now
    return end_part(part, io::make_error(ErrorCode::kUnsupported, "pieces in tier " + log_->folder().path()));
  }
  part.buffer = std::move(part.operation.buffer);
  const RecordSlot& slot = part.found.slot;
  const std::uint64_t offset = first_piece(part.range) * kPieceBytes;
  const std::uint64_t end = std::min<std::uint64_t>(end_piece(part.range) * kPieceBytes, slot.payload_bytes);
  submit_part(part, {log_->block_of(slot) * kBlockBytes + offset, end - offset},
              [](io::Operation& operation, Result<std::uint64_t> done) {
                DiskPart& self = *static_cast<DiskPart*>(operation.context);
                self.tier->end_read_of_pieces(self, std::move(done));
              });
}

// From the record's last block, which was read; false where there are none that can be trusted.
bool DiskTier::take_hashes(DiskPart& part, std::uint64_t bytes) {
  const RecordSlot& slot = part.found.slot;
  const TierLabel& label = log_->folder().label();
  RecordTrailer trailer;
  const std::byte* const trailer_at = part.operation.data() + kBlockBytes - sizeof trailer;
  std::memcpy(&trailer, trailer_at, sizeof trailer);
  const std::uint64_t table_bytes = piece_count(slot.payload_bytes) * sizeof(std::uint64_t);
  const std::byte* const table = trailer_at - table_bytes;
  const std::uint32_t end_block = log_->block_of(slot) + blocks_of(slot.payload_bytes);
  const bool good = bytes == kBlockBytes && is_trailer_of(trailer, label, part.found.segment->number, end_block) &&
                    trailer.payload_hash == slot.payload_hash && trailer.pieces_hash != 0 &&
                    trailer.pieces_hash == XXH3_64bits_withSeed(table, table_bytes, label.salt);
  if (!good) return false;
  const std::uint64_t first = first_piece(part.range);
  part.hashes.resize(end_piece(part.range) - first);
  std::memcpy(part.hashes.data(), table + first * sizeof(std::uint64_t), part.hashes.size() * sizeof(std::uint64_t));
  return true;
}

void DiskTier::end_read_of_pieces(DiskPart& part, Result<std::uint64_t> bytes) {
  if (!bytes) {
    lose_record(part.found.slot, bytes.error());
    return end_part(part, io::forward_error(std::move(bytes)));
  }
  state_.note_good_read();
  std::span<const std::byte> rest(part.operation.data(), *bytes);
  bool intact = *bytes == part.operation.length_bytes;
  for (const std::uint64_t hash : part.hashes) {
    const auto piece = rest.first(std::min<std::size_t>(kPieceBytes, rest.size()));
    intact = intact && hash_payload(piece) == hash;
    rest = rest.subspan(piece.size());
  }
  if (!intact) {
    fail_record(part.found.slot, corrupt_);
    return end_part(part, io::make_error(ErrorCode::kCorrupt, "read from tier " + log_->folder().path()));
  }
  hits_.fetch_add(1, std::memory_order_relaxed);
  hit_bytes_.fetch_add(*bytes, std::memory_order_relaxed);
  part.data = part.operation.data() + part.range.offset % kPieceBytes;
  end_part(part, {});
}

// Writing.

namespace {

// Before the trailer; returns its hash.
std::uint64_t append_piece_table(std::span<const std::byte> payload, std::byte* trailer_at, std::uint64_t salt) {
  std::vector<std::uint64_t> hashes;
  for (std::size_t at = 0; at < payload.size(); at += kPieceBytes) {
    hashes.push_back(hash_payload(payload.subspan(at, std::min<std::size_t>(kPieceBytes, payload.size() - at))));
  }
  const std::size_t bytes = hashes.size() * sizeof(std::uint64_t);
  std::memcpy(trailer_at - bytes, hashes.data(), bytes);
  return XXH3_64bits_withSeed(hashes.data(), bytes, salt);
}

// Behind the payload the buffer has room for zeros, the table and the trailer; readers of the payload do not look
// there.
RecordTrailer make_trailer(const Holding& holding, const RecordId& record, std::uint64_t data_set_key,
                           std::uint64_t salt) {
  const Identity& identity = record.identity;
  RecordTrailer trailer;
  trailer.data_set_key = data_set_key;
  trailer.name_hash = record.name_hash;
  trailer.identity_hash = hash_identity(identity);
  trailer.payload_hash = hash_payload(holding.content());
  trailer.payload_bytes = static_cast<std::uint32_t>(holding.size);
  trailer.chunk = record.chunk;
  trailer.file_bytes = identity.size_bytes;
  trailer.mtime_ns = identity.mtime_ns;
  trailer.inode = identity.inode;
  trailer.ctime_ns = identity.ctime_ns;
  std::byte* const trailer_at = holding.data + footprint_bytes(holding.size) - sizeof trailer;
  std::fill(holding.data + holding.size, trailer_at, std::byte{0});
  const bool is_of_chunk = is_chunked(identity.size_bytes) && record.range_bytes == 0;
  if (is_of_chunk && has_pieces(holding.size)) {
    trailer.pieces_hash = append_piece_table(holding.content(), trailer_at, salt);
  }
  return trailer;
}

}  // namespace

// Ownership: its own, from write() to end_write().
struct DiskTier::Write {
  DiskTier& tier;
  Holding& holding;
  RecordId record;
  std::function<void(Status)> done;
  TierThreads::Turn turn;
  Append append = {};
};

bool DiskTier::admits(std::uint64_t payload_bytes) {
  return is_attached() && state_.takes_records() &&
         footprint_bytes(payload_bytes) <= log_->folder().label().segment_bytes;
}

// Hashing is the writer's work: the caller may be a thread with reads to answer.
void DiskTier::write(Holding& holding, const RecordId& record, std::function<void(Status)> done) {
  pending_bytes_.fetch_add(holding.cost_bytes);
  auto* write = new Write{*this, holding, record, std::move(done), threads_->take_turn_of_writer()};
  threads_->writer().post([this, write] { begin_write(*write); });
}

void DiskTier::begin_write(Write& write) {
  HEADRACE_ASSERT(write.holding.data == write.holding.buffer.data());  // read from a block's start, whoever read it
  Append& append = write.append;
  append.trailer = make_trailer(write.holding, write.record, log_->data_set().key, log_->folder().label().salt);
  append.buffer = std::move(write.holding.buffer);
  append.context = &write;
  append.on_done = [](Append& self, Status status) {
    auto& ended = *static_cast<Write*>(self.context);
    ended.tier.end_write(ended, std::move(status));
  };
  log_->append(append);
}

void DiskTier::end_write(Write& write, Status status) {
  const std::unique_ptr<Write> ended(&write);
  write.holding.buffer = std::move(write.append.buffer);
  pending_bytes_.fetch_sub(write.holding.cost_bytes);
  ram_.unpin_written(write.holding);
  if (write.done) write.done(std::move(status));
}

TierStats DiskTier::stats() const {
  TierStats stats;
  stats.kind = kind();
  stats.path = options_.path.string();
  stats.budget_bytes = options_.budget_bytes;
  stats.asked_bytes = options_.budget_bytes;
  stats.keep_free_bytes = options_.keep_free_bytes;
  stats.hits = hits_.load();
  stats.hit_bytes = hit_bytes_.load();
  stats.evictions = evictions_.load();
  stats.errors = state_.errors();
  stats.corrupt = corrupt_.load() + stale_.load();
  stats.state = state_.describe();
  if (is_attached()) log_->add_figures(stats);
  return stats;
}

}  // namespace headrace::cache
