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

// A symbolic link in the path of a tier, which somebody other than root and the caller has made, can be turned to
// another place at any moment: kPermission, naming the link. Links of one's own are followed. For paths as the user
// wrote them; what was resolved has none any more. Whatever is renamed later, an open tier stays where it is.
[[nodiscard]] Status check_links(const std::filesystem::path& path);

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

// Reads the label and the index files, no records. What was written since the index files were last saved is missing.
// Errors: those of opening a tier, without kBusy.
[[nodiscard]] Result<TierInfo> describe_tier(const std::filesystem::path& path);

struct VerifyOptions {
  std::uint64_t bytes_per_second = 0;  // how fast to read at most; 0: as fast as it goes
  // Called a few times a second; false ends the verification.
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

// Removes the tier's files, and its folder when nothing else is in it. Errors: kBusy, kNotFound, those of opening.
[[nodiscard]] Status remove_tier(const std::filesystem::path& path);

}  // namespace headrace::cache
