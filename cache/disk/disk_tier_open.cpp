// SPDX-License-Identifier: Apache-2.0
// Opening a tier: the index files say what the segments hold; what they do not cover is found by looking for trailers.
#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <sys/resource.h>

#include "headrace/cache/disk/disk_tier.h"
#include "headrace/io/log.h"

namespace headrace::cache {
namespace {

using io::ErrorCode;
using io::MutexLock;

constexpr std::uint64_t kTierBytesMin = 4ULL << 20;
// 256 MiB: few files, and what a restart has to scan (the segment that was being filled) takes a second or two at most.
// Small budgets get sixteen segments, so that making room costs a sixteenth; a record must fit into one.
constexpr std::uint64_t kSegmentBytesMax = 256ULL << 20;
constexpr std::uint64_t kSegmentBytesMin = 1ULL << 20;
constexpr std::uint64_t kSegmentsAtLeast = 16;
constexpr std::chrono::seconds kSaveInterval{30};  // bounds what a restart after a crash has to scan

std::uint64_t segment_bytes_for(std::uint64_t budget_bytes) {
  const std::uint64_t wanted = budget_bytes / kSegmentsAtLeast / kSegmentBytesMin * kSegmentBytesMin;
  return std::clamp(wanted, kSegmentBytesMin, kSegmentBytesMax);
}

// Each segment is an open file; the usual soft limit of 1024 is 256 GiB of tier.
void allow_open_files(std::uint64_t segments) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, segments + 1024);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) io::log_warning("tier: the limit on open files stays too low");
}

}  // namespace

DiskTier::DiskTier(DiskTierOptions options, TierFolder folder, RamTier& ram, io::TimerThread& timers)
    : options_(std::move(options)),
      folder_(std::move(folder)),
      blocks_per_segment_(static_cast<std::uint32_t>(folder_.label().segment_bytes / kBlockBytes)),
      segments_max_(static_cast<std::uint32_t>(
          std::max<std::uint64_t>(1, options_.tier.budget_bytes / folder_.label().segment_bytes))),
      ram_(ram),
      timers_(timers) {}

Result<std::unique_ptr<DiskTier>> DiskTier::open(const DiskTierOptions& options, RamTier& ram,
                                                 io::TimerThread& timers) {
  const std::string path = options.tier.path.string();
  if (options.tier.budget_bytes < kTierBytesMin) {
    return io::make_error(ErrorCode::kInvalidArgument,
                          fmt::format("tier {}: a budget of {} bytes is too small, {} is the least", path,
                                      options.tier.budget_bytes, kTierBytesMin));
  }
  auto folder =
      TierFolder::open(options.tier.path, segment_bytes_for(options.tier.budget_bytes), TierFolder::Mode::kCreate);
  if (!folder) return io::forward_error(std::move(folder));
  if (folder->label().segment_bytes > options.tier.budget_bytes) {
    return io::make_error(ErrorCode::kInvalidArgument,
                          fmt::format("tier {}: its segments have {} bytes, more than the budget; remove the tier or "
                                      "raise the budget",
                                      path, folder->label().segment_bytes));
  }
  std::unique_ptr<DiskTier> tier(new DiskTier(options, std::move(*folder), ram, timers));
  if (auto loaded = tier->load(); !loaded) return io::forward_error(std::move(loaded));
  io::EngineOptions engine = options.engine;
  engine.rotational = options.tier.kind == TierKind::kHdd;
  const std::string name = engine.rotational ? "hr-hdd" : "hr-ssd";
  auto thread = options.make_engine ? io::IoThread::start(name, options.make_engine)
                                    : io::IoThread::start({.name = name, .engine = engine});
  if (!thread) return io::forward_error(std::move(thread));
  tier->thread_ = std::move(*thread);
  tier->thread_->register_file(tier->folder_.lock_fd());  // before any write
  for (const auto& segment : tier->segments()) tier->thread_->register_file(segment->fd.get());
  tier->save_periodically();
  return tier;
}

Status DiskTier::load() {
  allow_open_files(segments_max_);
  auto numbers = folder_.segment_numbers();
  if (!numbers) return io::forward_error(std::move(numbers));
  for (const std::uint32_t number : *numbers) {
    if (auto loaded = load_segment(number); !loaded) {
      io::log_warning("{}; segment {} is left alone", loaded.error().message(), number);
    }
    next_number_ = number + 1;
  }
  fit_budget();
  choose_active();
  if (auto named = folder_.add_data_set(options_.data_set); !named) stop_admission(named.error());
  return {};
}

Status DiskTier::load_segment(std::uint32_t number) {
  auto segment = std::make_shared<Segment>();
  segment->number = number;
  Status opened = open_segment_file(folder_, *segment, true);
  if (!opened && opened.error().os_errno == EROFS) {
    stop_admission(opened.error());
    opened = open_segment_file(folder_, *segment, false);
  }
  if (!opened) return opened;
  if (!load_segment_index(folder_, *segment) || !segment->sealed) {
    if (auto scanned = scan_segment(folder_, *segment); !scanned) return scanned;
  }
  {
    MutexLock lock(mutex_);
    segment->place = static_cast<std::uint32_t>(segments_.size());
    segments_.push_back(segment);
  }
  for (const IndexedRecord& record : segment->records) index_record(*segment, record);
  used_blocks_.fetch_add(segment->next_block);
  return {};
}

// Also when a record is written. The newest record of a name wins; the older one becomes dead weight.
void DiskTier::index_record(Segment& segment, const IndexedRecord& record) {
  const std::uint32_t block = segment.place * blocks_per_segment_ + record.first_block;
  const RecordSlot slot{record_key(record.data_set_key, record.name_hash), record.payload_hash, record.identity_hash,
                        block, record.payload_bytes};
  const auto before = index_.insert(slot);
  if (record.data_set_key != options_.data_set.key) return;
  segment.useful_bytes.fetch_add(static_cast<std::int64_t>(footprint_bytes(record.payload_bytes)));
  if (!before) return;
  if (const auto older = segment_at(before->block)) {
    older->useful_bytes.fetch_sub(static_cast<std::int64_t>(footprint_bytes(before->payload_bytes)));
  }
}

// The budget may have become smaller since the tier was last used: the oldest segments go.
void DiskTier::fit_budget() {
  const auto present = segments();
  for (std::size_t i = 0; i + segments_max_ < present.size(); ++i) remove_segment(present[i]->place);
}

// Filling goes on in the newest segment that is not sealed; older ones (a crash between two of them) are closed.
void DiskTier::choose_active() {
  const auto present = segments();
  for (const auto& segment : present) {
    if (segment->sealed) {
      std::vector<IndexedRecord>().swap(segment->records);
    } else if (segment == present.back() && reserve_blocks(folder_, *segment)) {
      active_ = segment;
    } else {
      segment->sealed = true;
      if (auto saved = save_segment_index(folder_, *segment, false); !saved) stop_admission(saved.error());
    }
  }
}

void DiskTier::save_periodically() {
  timers_.after(kSaveInterval, [this] {
    if (state_.load() >= State::kDropped) return;
    thread_->post([this] {
      Status saved;
      checkpoint(false, saved);
      if (!saved) stop_admission(saved.error());
    });
    save_periodically();
  });
}

}  // namespace headrace::cache
