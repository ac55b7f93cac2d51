// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/opens/openings.h"

#include <algorithm>
#include <utility>

#include <pthread.h>

#include "headrace/io/log.h"

namespace headrace::fuse {
using cache::EntryId;
using io::MutexLock;

namespace {

// Files that are opened side by side, as the workers of a loader do with shards. The one that began first makes way.
constexpr std::size_t kUnderWayMax = 4;
// An opening begins with one of the first ranges of the profile: what the kernel reads around a page may differ.
constexpr std::size_t kBeginWithin = 16;
// Of fewer ranges nobody waits for long.
constexpr std::size_t kRangesLeast = 4;
// A reader that reads nothing for so long has gone, or at least makes way for another one.
constexpr std::chrono::seconds kGone{10};
constexpr std::chrono::seconds kMakesWay{1};
// How often it is looked whether something is over; what was recorded is saved then.
constexpr std::chrono::seconds kLook{5};
// Of so many ranges it can be told whether they are of use.
constexpr std::uint64_t kJudgedMin = 64;

}  // namespace

Openings::Openings(cache::Store& store, const OpeningsOptions& options)
    : store_(store), file_(options.file), memory_bytes_(options.memory_bytes) {
  load();
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "hr-opening");
    run();
  });
}

void Openings::load() {
  MutexLock lock(mutex_);
  io::Result<cache::OpeningProfile> loaded = cache::OpeningProfile::load(file_);
  if (loaded) {
    profile_ = std::move(*loaded);
  } else if (loaded.error().code != io::ErrorCode::kNotFound) {
    io::log_warning("{}: what programs read when they open files is recorded anew: {}", file_.string(),
                    loaded.error().message());
  }
  if (profile_.range_count() == 0) memory_bytes_ = 0;
}

void Openings::on_read(EntryId entry, const PageRange& range) {
  const Clock::time_point now = Clock::now();
  MutexLock lock(mutex_);
  if (is_stopped_) return;
  auto found = files_.find(entry);
  if (found == files_.end()) {
    if (files_.size() == cache::OpeningProfile::kFilesMax) return;
    found = files_.try_emplace(entry).first;
    look_up(entry, found->second, now);
  }
  OpenedFile& file = found->second;
  if (!file.recorder) return;
  const std::size_t before = file.recorder->ranges().size();
  const bool goes_on = file.recorder->note(range, now);
  recorded_ += file.recorder->ranges().size() - before;
  if (!goes_on || recorded_ >= cache::OpeningProfile::kRangesMax) end_recording(entry, file);
}

void Openings::look_up(EntryId entry, OpenedFile& file, Clock::time_point now) {
  const io::Result<cache::Identity> identity = store_.identity(entry);
  if (!identity) return;
  file.identity = *identity;
  const cache::FileOpening* const known = profile_.find(store_.catalog().path(entry), *identity);
  const bool is_never_the_same = known != nullptr && known->ranges.empty();
  if (!is_never_the_same) {
    file.recorder.emplace(now);
    if (recording_++ == 0) wake_.notify_one();
  }
  if (known != nullptr && !is_never_the_same && memory_bytes_ > 0)
    file.ranges = std::make_shared<const RangesAhead::Ranges>(known->ranges);
}

bool Openings::answer_read(EntryId entry, const cache::Identity& known, const PageRange& range,
                           const Requests::Answer& answer) {
  std::shared_ptr<RangesAhead> ahead;
  {
    MutexLock lock(mutex_);
    ahead = ahead_for(entry, known, range);
    if (!ahead) return false;
  }
  if (!ahead->answer_read(range, answer)) return false;
  answered_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// Null: nothing of the file is fetched ahead.
std::shared_ptr<RangesAhead> Openings::ahead_for(EntryId entry, const cache::Identity& known, const PageRange& range) {
  const auto found = files_.find(entry);
  if (is_stopped_ || found == files_.end() || !(found->second.identity == known)) return nullptr;
  OpenedFile& file = found->second;
  const Clock::time_point now = Clock::now();
  if (file.ahead && !file.ahead->is_over()) {
    file.last_used = now;
    return file.ahead;
  }
  if (file.ahead) end_ahead(entry);
  if (!file.ranges) return nullptr;
  const auto first = file.ranges->begin();
  const auto end = first + static_cast<std::ptrdiff_t>(std::min(kBeginWithin, file.ranges->size()));
  if (std::none_of(first, end, [&](const cache::ChunkRange& each) { return covers(each, range); })) return nullptr;
  end_aheads(now - kMakesWay);
  if (under_way_.size() == kUnderWayMax) return nullptr;  // this one may have its turn later
  file.last_used = now;
  // Half of what is left: most often one file is opened at a time.
  const RangesAhead::Limits limits{.bytes = (memory_bytes_ - taken_bytes_) / 2};
  taken_bytes_ += file.bytes = limits.bytes;
  file.ahead = std::make_shared<RangesAhead>(store_, entry, std::exchange(file.ranges, nullptr), limits);
  under_way_.push_back(entry);
  wake_.notify_one();
  return file.ahead;
}

void Openings::end_ahead(EntryId entry) {
  OpenedFile& file = files_.at(entry);
  const RangesAhead::Counts counts = file.ahead->counts();
  const bool is_judged = file.ahead->is_over() && counts.fetched >= kJudgedMin;  // else the reader may go on
  file.ahead->give_up();
  forget_ahead(entry, file);
  if (!is_judged || counts.used * 2 >= counts.fetched) return;
  drop_recorder(file);
  profile_.put({.path = store_.catalog().path(entry), .identity = file.identity, .ranges = {}});
  is_dirty_ = true;
}

void Openings::forget_ahead(EntryId entry, OpenedFile& file) {
  file.ahead.reset();
  taken_bytes_ -= std::exchange(file.bytes, 0);
  std::erase(under_way_, entry);
}

// Those that are over, or that nobody has read of since then.
void Openings::end_aheads(Clock::time_point since) {
  const std::vector<EntryId> all = under_way_;
  for (const EntryId entry : all) {
    const OpenedFile& file = files_.at(entry);
    if (file.last_used < since || file.ahead->is_over()) end_ahead(entry);
  }
}

void Openings::end_recording(EntryId entry, OpenedFile& file) {
  keep(entry, file);
  drop_recorder(file);
}

void Openings::drop_recorder(OpenedFile& file) {
  if (!file.recorder) return;
  recorded_ -= file.recorder->ranges().size();
  --recording_;
  file.recorder.reset();
}

void Openings::keep(EntryId entry, const OpenedFile& file) {
  const RangesAhead::Ranges& ranges = file.recorder->ranges();
  if (ranges.size() < kRangesLeast) return;
  is_dirty_ = true;
  profile_.put({.path = store_.catalog().path(entry), .identity = file.identity, .ranges = ranges});
}

void Openings::on_changed(std::span<const EntryId> entries) {
  MutexLock lock(mutex_);
  for (const EntryId entry : entries) {
    const auto found = files_.find(entry);
    if (found == files_.end()) continue;
    if (found->second.ahead) {
      found->second.ahead->stop();
      forget_ahead(entry, found->second);
    }
    drop_recorder(found->second);
    found->second = {};  // what its opening reads now is recorded in the next mount
  }
}

void Openings::run() {
  MutexLock lock(mutex_);
  Clock::time_point next_look = Clock::now();
  while (!is_stopped_) {
    if (recording_ == 0 && under_way_.empty() && !is_dirty_) {
      wake_.wait(lock);
      next_look = Clock::now() + kLook;
    } else if (Clock::now() < next_look) {
      static_cast<void>(wake_.wait_until(lock, next_look));
    } else {
      end_what_is_over(Clock::now());
      lock.unlock();
      save();
      lock.lock();
      next_look = Clock::now() + kLook;
    }
  }
}

void Openings::end_what_is_over(Clock::time_point now) {
  end_aheads(now - kGone);
  for (auto& [entry, file] : files_) {
    if (file.recorder && file.recorder->is_over(now)) end_recording(entry, file);
  }
}

void Openings::save() {
  std::optional<cache::OpeningProfile> profile;
  {
    MutexLock lock(mutex_);
    if (std::exchange(is_dirty_, false)) profile = profile_;
  }
  if (!profile) return;
  const io::Status saved = profile->save(file_);
  MutexLock lock(mutex_);
  is_unsaved_ = !saved;
  if (!saved) io::log_warning("{}", saved.error().message());
}

void Openings::stop() {
  MutexLock lock(mutex_);
  if (std::exchange(is_stopped_, true)) return;
  while (!under_way_.empty()) end_ahead(under_way_.front());
  for (auto& [entry, file] : files_) {
    if (file.recorder) end_recording(entry, file);
  }
  wake_.notify_one();
}

Openings::~Openings() {
  stop();
  thread_.join();
  {
    MutexLock lock(mutex_);
    is_dirty_ |= is_unsaved_;
  }
  save();
}

}  // namespace headrace::fuse
