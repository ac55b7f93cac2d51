// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/push/record_answers.h"

namespace headrace::fuse {
using cache::SampleIndex;
using io::MutexLock;

namespace {

bool covers(const PageRange& pages, const PageRange& range) {
  return range.offset >= pages.offset && range.offset + range.length <= pages.offset + pages.length;
}

}  // namespace

void RecordAnswers::expect(SampleIndex record, std::uint64_t inode) {
  MutexLock lock(mutex_);
  arriving_.try_emplace(record, Arriving{.inode = inode, .pages = records_->pages_of(record), .age = age_});
}

void RecordAnswers::arrive(SampleIndex record, std::span<const std::byte> bytes,
                           const std::shared_ptr<const void>& owner) {
  MutexLock lock(mutex_);
  const auto found = arriving_.find(record);
  if (found == arriving_.end()) return;
  Arriving& arriving = found->second;
  const std::uint64_t begin = arriving.pages.offset;
  const auto waiting = std::exchange(arriving.waiting, {});
  arriving.is_read = true;
  if (owner && arriving.age == age_) {
    arriving.bytes = bytes;
    arriving.owner = owner;
  }
  lock.unlock();
  for (const auto& [range, answer] : waiting)
    answer(owner ? bytes.subspan(range.offset - begin, range.length) : std::span<const std::byte>());
}

// One that is still being read under another plan answers who waits for it.
void RecordAnswers::finish(SampleIndex record) {
  MutexLock lock(mutex_);
  const auto found = arriving_.find(record);
  if (found != arriving_.end() && found->second.is_read) arriving_.erase(found);
}

void RecordAnswers::leave_beacon(SampleIndex record, Beacon beacon) {
  MutexLock lock(mutex_);
  beacons_[record] = std::move(beacon);
}

void RecordAnswers::drop_beacon(SampleIndex record) {
  MutexLock lock(mutex_);
  beacons_.erase(record);
}

// The kernel has it from then on, and it is counted once.
std::vector<std::byte> RecordAnswers::take_beacon(SampleIndex record, std::uint64_t inode, const PageRange& range) {
  const auto found = beacons_.find(record);
  if (found == beacons_.end()) return {};
  Beacon& beacon = found->second;
  if (beacon.inode != inode || beacon.offset != range.offset || beacon.bytes.size() != range.length) return {};
  std::vector<std::byte> bytes = std::move(beacon.bytes);
  beacons_.erase(found);
  return bytes;
}

bool RecordAnswers::answer_read(cache::EntryId pack, std::uint64_t inode, const PageRange& range,
                                const RecordAnswer& answer) {
  const std::vector<SampleIndex> read = records_->records_in(pack, range);
  MutexLock lock(mutex_);
  for (const SampleIndex record : read) {
    if (const std::vector<std::byte> page = take_beacon(record, inode, range); !page.empty()) {
      lock.unlock();
      answer(page);
      return true;
    }
    const auto found = arriving_.find(record);
    if (found == arriving_.end()) continue;
    Arriving& arriving = found->second;
    if (arriving.inode != inode || !covers(arriving.pages, range)) continue;
    if (!arriving.owner) {
      if (arriving.is_read) return false;
      arriving.waiting.emplace_back(range, answer);
      return true;
    }
    const std::span<const std::byte> bytes = arriving.bytes.subspan(range.offset - arriving.pages.offset, range.length);
    const std::shared_ptr<const void> owner = arriving.owner;
    lock.unlock();
    answer(bytes);
    return true;
  }
  return false;
}

void RecordAnswers::forget() {
  MutexLock lock(mutex_);
  ++age_;
  beacons_.clear();
  for (auto& [ignored, arriving] : arriving_) {
    arriving.bytes = {};
    arriving.owner.reset();
  }
}

}  // namespace headrace::fuse
