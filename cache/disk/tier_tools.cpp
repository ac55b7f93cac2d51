// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/tier_tools.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "headrace/cache/disk/record_index.h"
#include "headrace/cache/disk/segment.h"
#include "headrace/cache/disk/tier_folder.h"

namespace headrace::cache {
namespace {

using io::Buffer;
using Clock = std::chrono::steady_clock;

std::uint64_t disk_bytes_of(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * 512 : 0;
}

// Every segment with what can be known of it: from its index file, or else by looking.
Result<std::vector<std::unique_ptr<Segment>>> load_segments(const TierFolder& folder, bool writable, TierInfo& info) {
  HEADRACE_TRY(numbers, folder.segment_numbers());
  std::vector<std::unique_ptr<Segment>> segments;
  for (const std::uint32_t number : numbers) {
    auto segment = std::make_unique<Segment>();
    segment->number = number;
    HEADRACE_TRY_DO(open_segment_file(folder, *segment, writable));
    info.disk_bytes += disk_bytes_of(segment->fd.get());
    const bool known = load_segment_index(folder, *segment);
    if (!known) info.segments_without_index += 1;
    if (!known || (writable && !segment->sealed)) HEADRACE_TRY_DO(scan_segment(folder, *segment));
    segments.push_back(std::move(segment));
  }
  return segments;
}

// Reads records one after the other, no faster than asked.
class Scrubber {
 public:
  Scrubber(const VerifyOptions& options, std::uint64_t bytes_total) : options_(options), bytes_total_(bytes_total) {}

  // Takes the damaged records out of the segment. False: asked to end.
  bool scrub(Segment& segment, VerifyReport& report) {
    std::vector<IndexedRecord> intact;
    bool going_on = true;
    for (const IndexedRecord& record : segment.records) {
      going_on = going_on && pause_and_tell(report.bytes);
      if (!going_on || check(segment, record)) {
        intact.push_back(record);
      } else {
        report.damaged += 1;
        segment.index_dirty = true;
      }
      if (!going_on) continue;
      report.records += 1;
      report.bytes += record.payload_bytes;
    }
    segment.records = std::move(intact);
    return going_on;
  }

 private:
  bool check(const Segment& segment, const IndexedRecord& record) {
    const std::uint64_t bytes = footprint_bytes(record.payload_bytes);
    if (buffer_.capacity() < bytes) {
      auto larger = Buffer::allocate(bytes);
      if (!larger) return true;  // no memory says nothing about the record
      buffer_ = std::move(*larger);
    }
    std::uint64_t done = 0;
    while (done < bytes) {
      const auto offset = static_cast<off_t>(record.first_block * kBlockBytes + done);
      const ssize_t got = ::pread(segment.fd.get(), buffer_.data() + done, bytes - done, offset);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      done += static_cast<std::uint64_t>(got);
    }
    return hash_payload({buffer_.data(), record.payload_bytes}) == record.payload_hash;
  }

  bool pause_and_tell(std::uint64_t bytes_done) {
    if (options_.bytes_per_second > 0) {
      const std::chrono::duration<double> due(static_cast<double>(bytes_done) /
                                              static_cast<double>(options_.bytes_per_second));
      const auto due_time = started_ + std::chrono::duration_cast<Clock::duration>(due);
      while (Clock::now() < due_time) {  // in steps, so that whoever wants it to end is heard at a low rate, too
        std::this_thread::sleep_until(std::min(due_time, Clock::now() + kTellInterval));
        if (!tell(bytes_done)) return false;
      }
    }
    return tell(bytes_done);
  }

  bool tell(std::uint64_t bytes_done) {
    const auto now = Clock::now();
    if (!options_.on_progress || now < next_tell_) return true;
    next_tell_ = now + kTellInterval;
    return options_.on_progress(bytes_done, bytes_total_);
  }

  static constexpr std::chrono::milliseconds kTellInterval{200};

  const VerifyOptions& options_;
  const std::uint64_t bytes_total_;
  const Clock::time_point started_ = Clock::now();
  Clock::time_point next_tell_ = started_;
  Buffer buffer_;
};

}  // namespace

Result<TierInfo> describe_tier(const std::filesystem::path& path) {
  HEADRACE_TRY(folder, TierFolder::open(path, 0, TierFolder::Mode::kReadOnly));
  TierInfo info;
  info.version = folder.label().version;
  info.segment_bytes = folder.label().segment_bytes;
  HEADRACE_TRY(segments, load_segments(folder, false, info));
  info.segments = segments.size();

  std::unordered_map<std::uint64_t, const IndexedRecord*> newest;
  for (const auto& segment : segments) {
    for (const IndexedRecord& record : segment->records)
      newest[record_key(record.data_set_key, record.name_hash)] = &record;
  }
  std::map<std::uint64_t, TierInfo::DataSet> by_key;
  for (const auto& [key, record] : newest) {
    TierInfo::DataSet& data_set = by_key[record->data_set_key];
    data_set.records += 1;
    data_set.bytes += record->payload_bytes;
  }
  const auto names = folder.data_sets();
  for (auto& [key, data_set] : by_key) {
    const auto named =
        std::find_if(names.begin(), names.end(), [&, wanted = key](const auto& name) { return name.key == wanted; });
    data_set.key = key;
    data_set.source = named != names.end() ? named->source : "unknown";
    info.data_sets.push_back(std::move(data_set));
  }
  return info;
}

Result<VerifyReport> verify_tier(const std::filesystem::path& path, const VerifyOptions& options) {
  HEADRACE_TRY(folder, TierFolder::open(path, 0, TierFolder::Mode::kOwner));
  TierInfo info;
  HEADRACE_TRY(segments, load_segments(folder, true, info));
  std::uint64_t bytes_total = 0;
  for (const auto& segment : segments) {
    for (const IndexedRecord& record : segment->records) bytes_total += record.payload_bytes;
  }
  VerifyReport report;
  Scrubber scrubber(options, bytes_total);
  for (const auto& segment : segments) {
    report.complete = report.complete && scrubber.scrub(*segment, report);
    if (segment->index_dirty) HEADRACE_TRY_DO(save_segment_index(folder, *segment, true));
  }
  return report;
}

Status remove_tier(const std::filesystem::path& path) {
  {
    HEADRACE_TRY(folder, TierFolder::open(path, 0, TierFolder::Mode::kRemover));
    HEADRACE_TRY_DO(folder.remove_all());
  }
  if (::rmdir(path.c_str()) != 0 && errno != ENOTEMPTY && errno != EEXIST && errno != EBUSY) {
    return io::system_error(errno, "remove tier " + path.string());
  }
  return {};
}

}  // namespace headrace::cache
