// SPDX-License-Identifier: Apache-2.0
// Which records READs were for, each once: what tells in which order they are read while nobody knows it.
//
//   ReadEvidence evidence(records);
//   const auto record = evidence.on_read(range, records->records_in(entry, range));
//   if (record) learner.on_opens({&*record, 1});
//
// A READ is for the record that lies in it as a whole, or whose part it is. Where a page fault brings a page of two
// records, the fault after it tells which. Of records so small that a page has several of them nothing is known.
//
// Thread-safety: none; one owner.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "headrace/fuse/push/pack_records.h"

namespace headrace::fuse {

class ReadEvidence {
 public:
  // As the faults of a record in several pages come between those of other readers. A record that is read again after
  // so many others is read again.
  static constexpr std::size_t kRecent = 256;

  explicit ReadEvidence(std::shared_ptr<const PackRecords> records) : records_(std::move(records)) {}

  // `read`: the records that have bytes in the range.
  [[nodiscard]] std::optional<cache::SampleIndex> on_read(const PageRange& range,
                                                          std::span<const cache::SampleIndex> read);

  // Whoever follows an order knows that these were read.
  void settle(std::span<const cache::SampleIndex> known);
  // True once for a record that on_read() has named since: it was told already.
  [[nodiscard]] bool take_told(cache::SampleIndex record);

 private:
  [[nodiscard]] std::optional<cache::SampleIndex> record_of(const PageRange& range,
                                                            std::span<const cache::SampleIndex> read) const;

  const std::shared_ptr<const PackRecords> records_;
  std::vector<cache::SampleIndex> unclear_;  // any of these the READ before was for; empty: it was plain
  std::deque<cache::SampleIndex> recent_;
};

}  // namespace headrace::fuse
