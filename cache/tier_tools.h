// SPDX-License-Identifier: Apache-2.0
// Looking into a disk tier from outside: what it holds, whether it is intact, how to be rid of it.
//
//   auto info = describe_tier("/ssd/headrace");                        // also while a process uses it
//   auto report = verify_tier("/ssd/headrace", {.bytes_per_second = 100 << 20});
//
// Thread-safety: each call is independent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "headrace/io/result.h"

namespace headrace::cache {

using io::Result;
using io::Status;

struct TierInfo {
  struct DataSet {
    std::string source;  // "unknown" where its name was lost
    std::uint64_t key = 0;
    std::uint64_t records = 0;  // newest records; chunks of large files count each
    std::uint64_t bytes = 0;    // their payloads
  };
  std::uint32_t version = 0;
  std::uint64_t segment_bytes = 0;
  std::uint64_t segments = 0;
  std::uint64_t disk_bytes = 0;              // what the files take
  std::uint64_t segments_without_index = 0;  // a start has to scan them
  std::vector<DataSet> data_sets;
};

// Reads the label and the index files, no records. Records that were written after the index files were saved last are
// missing.
// Errors: those of opening a tier, without kBusy.
[[nodiscard]] Result<TierInfo> describe_tier(const std::filesystem::path& path);

struct VerifyOptions {
  std::uint64_t bytes_per_second = 0;  // how fast to read at most; 0: as fast as it goes
  // Runs a few times a second; when it returns false the verification ends.
  std::function<bool(std::uint64_t bytes_done, std::uint64_t bytes_total)> on_progress;
};

struct VerifyReport {
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::uint64_t damaged = 0;  // taken out of the index: fetched again when they are next wanted
  bool complete = true;       // false: ended by on_progress
};

// Reads every record and compares it with its checksum. Takes the tier's lock.
// Errors: those of opening a tier, kBusy included (stop the process that uses it, or look at its own figures).
[[nodiscard]] Result<VerifyReport> verify_tier(const std::filesystem::path& path, const VerifyOptions& options);

// Removes the tier's files, and its folder when nothing else is in it; also a tier whose label is damaged or of another
// format. Errors: kBusy, kNotFound, kPermission, else the system's.
[[nodiscard]] Status remove_tier(const std::filesystem::path& path);

}  // namespace headrace::cache
