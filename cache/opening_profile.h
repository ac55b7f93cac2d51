// SPDX-License-Identifier: Apache-2.0
// What programs read of large files when they open them: the same small ranges each time, one after the other. An Arrow
// stream has a header in front of each of its batches, HDF5 a tree. Kept beside the catalog, so that the next mount can
// fetch them side by side.
//
//   Result<OpeningProfile> profile = OpeningProfile::load("train.catalog.opening");
//   if (const FileOpening* opening = profile->find("train.arrow", identity)) fetch(opening->ranges);
//   HEADRACE_TRY_DO(profile->save("train.catalog.opening"));
//
// A profile says where bytes lie, never what they are: one that is wrong costs reads of the source, no wrong byte.
//
// The file, little-endian: OpeningHeader; for each file an OpeningRow, its path and its ranges, each of 8 bytes of
// offset and 4 of length. The hash guards against rot, not against malice: all numbers are checked as well.
//
// Thread-safety: as a plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/cache/chunk.h"

namespace headrace::cache {

struct FileOpening {
  std::string path;                // below the source
  Identity identity;               // the version that was opened
  std::vector<ChunkRange> ranges;  // in the sequence in which they were read; none: what it reads is not the same
};

struct OpeningProfile {
  // A quarter of a million ranges, 3 MiB: two files of 100 000 record batches.
  static constexpr std::size_t kRangesMax = 1 << 18;
  static constexpr std::size_t kFilesMax = 4096;
  // Ranges that lie next to each other are one up to here: two READs of what the kernel reads ahead.
  static constexpr std::uint64_t kRangeBytesMax = 256 << 10;

  // Null: nothing is known of this version of the file.
  [[nodiscard]] const FileOpening* find(std::string_view path, const Identity& identity) const;
  // In place of what is known of the file. What is more than the limits goes, the oldest first.
  void put(FileOpening opening);
  [[nodiscard]] std::size_t range_count() const;

  // Replaces the file. Errors: kSystem.
  [[nodiscard]] Status save(const std::filesystem::path& file) const;
  // Errors: kNotFound, kSystem; kCorrupt and kUnsupported as parse().
  [[nodiscard]] static Result<OpeningProfile> load(const std::filesystem::path& file);
  // Errors: kCorrupt (anything but what save() writes), kUnsupported (of another version of headrace).
  [[nodiscard]] static Result<OpeningProfile> parse(std::span<const std::byte> bytes);

  std::vector<FileOpening> files;  // the oldest first
};

}  // namespace headrace::cache
