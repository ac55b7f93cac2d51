// SPDX-License-Identifier: Apache-2.0
// Orders kept from an earlier run: recorded:FOLDER has one file per epoch, "0.epoch", "1.epoch", ...
//
//   write_recorded_epoch(folder, 0, samples);
//   auto order = make_order("recorded:" + folder, {.sample_count = n});
//
// A file is a header (magic "hrepoch1", count as 64 bits, XXH3 of the indices) and the indices as 32-bit little-endian
// words. It is written beside its name and renamed, so that a reader never sees a part of it.
// Thread-safety: pure functions on files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "headrace/cache/order.h"

namespace headrace::cache {

// Epochs kept of one run: enough for orders that repeat; 40 MB each for 10 M samples.
inline constexpr std::uint64_t kRecordedEpochs = 8;

[[nodiscard]] io::Status write_recorded_epoch(const std::filesystem::path& folder, std::uint64_t epoch,
                                              std::span<const SampleIndex> samples);
// Errors: kNotFound, kCorrupt (checksum, or an index that the data set does not have).
[[nodiscard]] Result<std::vector<SampleIndex>> read_recorded_epoch(const std::filesystem::path& folder,
                                                                   std::uint64_t epoch, std::uint64_t sample_count);

}  // namespace headrace::cache
