// SPDX-License-Identifier: Apache-2.0
// Has the daemon of a mount compare the source with what it shows, and waits for that.
//
//   HEADRACE_TRY(found, compare_source(mount_point));
//   fmt::print("{} files changed\n", found.changed);
//
// Thread-safety: any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "headrace/io/result.h"

namespace headrace::cli {

struct Comparison {
  bool has_ended = true;  // false: not within the patience; the daemon goes on with it
  std::uint64_t changed = 0;
  std::uint64_t vanished = 0;
  std::uint64_t appeared = 0;
  bool is_shown = false;  // what appeared
  std::string why_not_shown;
};

// Without a patience it waits for as long as it takes. Errors: as call_daemon(); kSystem (the source could not be
// compared).
[[nodiscard]] io::Result<Comparison> compare_source(const std::filesystem::path& mount_point,
                                                    std::optional<std::chrono::milliseconds> patience = {});

}  // namespace headrace::cli
