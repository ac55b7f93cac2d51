// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/opens/ranges_ahead.h"

#include <algorithm>
#include <span>

namespace headrace::fuse {
using io::MutexLock;

namespace {

// READs that the kernel sends side by side come out of their order, and two of them may be for one range.
constexpr std::size_t kBehind = 16;
// How many ranges further on a reader is looked for that has left some out.
constexpr std::size_t kSkipMax = 256;
// So many READs of something else in a row: the reader has left.
constexpr unsigned kMissesMax = 64;

std::uint64_t memory_of(const cache::ChunkRange& range) {
  return cache::footprint_bytes(range.length);
}

std::span<const std::byte> bytes_of(const cache::View& view, const cache::ChunkRange& range, const PageRange& read) {
  return view.bytes().subspan(read.offset - range.offset, read.length);
}

}  // namespace

bool covers(const cache::ChunkRange& range, const PageRange& read) {
  return read.offset >= range.offset && read.offset + read.length <= range.offset + range.length;
}

bool RangesAhead::answer_read(const PageRange& range, const Answer& answer) {
  MutexLock lock(mutex_);
  if (is_stopped_ || is_over_) return false;
  const std::shared_ptr<Part> part = find(range);
  const std::shared_ptr<const cache::View> view = part ? part->view : nullptr;
  const bool leads = !part && skip_to(range);
  const bool is_last = next_ == ranges_->size() && (leads || (part && part == parts_.back()));
  const Parts begun = part || leads ? begin_next() : Parts();
  misses_ = part || leads ? 0 : misses_ + 1;
  is_over_ = is_last || misses_ >= kMissesMax;
  if (part) note_use(*part, range);
  lock.unlock();
  if (view) answer(bytes_of(*view, part->range, range));
  for (const std::shared_ptr<Part>& each : begun) fetch(each);
  return view != nullptr;
}

void RangesAhead::note_use(Part& part, const PageRange& read) {
  if (!std::exchange(part.is_used, true)) ++counts_.used;
  part.is_read |= read.offset + read.length == part.range.offset + part.range.length;
}

std::shared_ptr<RangesAhead::Part> RangesAhead::find(const PageRange& range) {
  const auto found = std::ranges::find_if(parts_, [&](const auto& part) { return covers(part->range, range); });
  if (found == parts_.end()) return nullptr;
  std::shared_ptr<Part> part = *found;
  for (auto passed = found - parts_.begin(); passed > static_cast<std::ptrdiff_t>(kBehind); --passed) drop_first();
  return part;
}

// Behind the one that is read. That one somebody waits for: its READ goes by itself, ahead of what is fetched ahead.
bool RangesAhead::skip_to(const PageRange& range) {
  const auto from = ranges_->begin() + static_cast<std::ptrdiff_t>(next_);
  const auto until = from + static_cast<std::ptrdiff_t>(std::min(kSkipMax, ranges_->size() - next_));
  const auto found = std::find_if(from, until, [&](const cache::ChunkRange& each) { return covers(each, range); });
  if (found == until) return false;
  while (!parts_.empty()) drop_first();
  next_ = static_cast<std::size_t>(found - ranges_->begin()) + 1;
  return true;
}

// One that is on its way counts until it arrives.
void RangesAhead::drop_first() {
  Part& part = *parts_.front();
  part.is_dropped = true;
  part.view.reset();
  if (part.has_ended) give_back(part);
  parts_.pop_front();
}

void RangesAhead::give_back(const Part& part) {
  --held_;
  held_bytes_ -= memory_of(part.range);
}

bool RangesAhead::has_room(const cache::ChunkRange& range) const {
  return held_ == 0 || (held_ < limits_.ranges && held_bytes_ + memory_of(range) <= limits_.bytes);
}

// What was read to its end makes way.
bool RangesAhead::make_room(const cache::ChunkRange& range) {
  while (!has_room(range) && !parts_.empty() && parts_.front()->is_read && parts_.front()->has_ended) drop_first();
  return has_room(range);
}

RangesAhead::Parts RangesAhead::begin_next() {
  Parts begun;
  while (next_ < ranges_->size() && make_room((*ranges_)[next_])) {
    const cache::ChunkRange& range = (*ranges_)[next_++];
    ++held_;
    held_bytes_ += memory_of(range);
    ++counts_.fetched;
    parts_.push_back(std::make_shared<Part>(Part{.range = range}));
    begun.push_back(parts_.back());
  }
  return begun;
}

void RangesAhead::fetch(const std::shared_ptr<Part>& part) {
  auto done = [self = shared_from_this(), part](io::Result<cache::View> view) {
    self->on_fetched(*part, std::move(view));
  };
  store_.read_range_async(entry_, part->range.offset, part->range.length, std::move(done),
                          cache::ReadHint::kAheadUnasked);
}

void RangesAhead::on_fetched(Part& part, io::Result<cache::View> view) {
  const bool is_whole = view && view->bytes().size() == part.range.length;
  const auto held = is_whole ? std::make_shared<const cache::View>(std::move(*view)) : nullptr;
  MutexLock lock(mutex_);
  part.has_ended = true;
  if (part.is_dropped) {
    give_back(part);
  } else if (!is_stopped_) {
    part.view = held;
  }
}

void RangesAhead::give_up() {
  MutexLock lock(mutex_);
  is_over_ = true;
  while (!parts_.empty()) drop_first();
}

void RangesAhead::stop() {
  MutexLock lock(mutex_);
  is_stopped_ = is_over_ = true;
  while (!parts_.empty()) drop_first();
}

bool RangesAhead::is_over() const {
  MutexLock lock(mutex_);
  return is_over_;
}

RangesAhead::Counts RangesAhead::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

}  // namespace headrace::fuse
