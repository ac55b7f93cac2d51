// SPDX-License-Identifier: Apache-2.0
// Answers READs of records from what was fetched for them, pushed or not yet: else each would ask the source once
// more, and the push would wait for the page that the kernel keeps locked until then.
//
//   RecordAnswers answers(records);
//   answers.expect(42, inode);                   // the record is being fetched
//   answers.answer_read(inode, range, answer);   // true: `answer` is called, now or when the record arrives
//   answers.arrive(42, bytes, owner);
//   answers.leave_beacon(42, {inode, offset, page});
//   answers.finish(42);                          // it is pushed
//
// Thread-safety: every function from any thread; answers are called without a lock. Ownership: shares what arrives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "headrace/fuse/push/pack_records.h"
#include "headrace/io/mutex.h"

namespace headrace::fuse {

// No bytes: they cannot be had here after all.
using RecordAnswer = std::function<void(std::span<const std::byte> bytes)>;

class RecordAnswers {
 public:
  explicit RecordAnswers(std::shared_ptr<const PackRecords> records) : records_(std::move(records)) {}

  // The record is fetched, as the version that the inode stands for, and arrive() will be called for it. Under another
  // plan it may be on its way already: whichever comes first answers.
  void expect(cache::SampleIndex record, std::uint64_t inode);
  // The pages of the record, for READs that wait for it and for those that come until finish().
  // `owner` keeps them; null: they cannot be shown.
  void arrive(cache::SampleIndex record, std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner);
  // The record is pushed, or will not be.
  void finish(cache::SampleIndex record);

  // The page of a pushed record that is left out of the page cache: whoever reads the rest asks for it next.
  struct Beacon {
    std::uint64_t inode = 0;
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;
  };
  void leave_beacon(cache::SampleIndex record, Beacon beacon);
  void drop_beacon(cache::SampleIndex record);

  // Answers a READ of the inode of the pack with a beacon or a record that arrived, or when one arrives.
  // False: nobody fetches it, and `answer` will not be called.
  [[nodiscard]] bool answer_read(cache::EntryId pack, std::uint64_t inode, const PageRange& range,
                                 const RecordAnswer& answer);
  // The pack is another version by now, or the push ends: nothing that was fetched until now is shown any more. Who
  // waits is answered when it arrives.
  void forget();

 private:
  struct Arriving {
    std::uint64_t inode = 0;
    PageRange pages;
    std::uint64_t age = 0;  // age_ when it was expected
    bool is_read = false;
    std::span<const std::byte> bytes = {};
    std::shared_ptr<const void> owner = nullptr;  // null: not read yet, or not to be shown
    std::vector<std::pair<PageRange, RecordAnswer>> waiting = {};
  };

  [[nodiscard]] std::vector<std::byte> take_beacon(cache::SampleIndex record, std::uint64_t inode,
                                                   const PageRange& range) HEADRACE_REQUIRES(mutex_);

  const std::shared_ptr<const PackRecords> records_;
  io::Mutex mutex_;
  std::uint64_t age_ HEADRACE_GUARDED_BY(mutex_) = 0;  // grows with forget()
  std::unordered_map<cache::SampleIndex, Arriving> arriving_ HEADRACE_GUARDED_BY(mutex_);
  std::unordered_map<cache::SampleIndex, Beacon> beacons_ HEADRACE_GUARDED_BY(mutex_);
};

}  // namespace headrace::fuse
