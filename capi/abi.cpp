// SPDX-License-Identifier: Apache-2.0
// What the library says about itself.
#include <algorithm>
#include <string_view>
#include <utility>

#include "headrace/capi/headrace.h"
#include "headrace/capi/internal/guard.h"
#include "headrace/io/log.h"
#include "headrace/io/memory_limit.h"

uint32_t hr_abi_version() {
  return HR_ABI_VERSION;
}

const char* hr_version() {
  return HEADRACE_VERSION;
}

uint64_t hr_struct_bytes(const char* name) {
  static constexpr std::pair<std::string_view, uint64_t> kStructs[] = {
      {"hr_tier", sizeof(hr_tier)},     {"hr_dataset_options", sizeof(hr_dataset_options)},
      {"hr_digest", sizeof(hr_digest)}, {"hr_loader_options", sizeof(hr_loader_options)},
      {"hr_bytes", sizeof(hr_bytes)},   {"hr_note", sizeof(hr_note)},
      {"hr_crop", sizeof(hr_crop)},     {"hr_window", sizeof(hr_window)},
      {"hr_batch", sizeof(hr_batch)},
  };
  for (const auto& [known, bytes] : kStructs) {
    if (name != nullptr && known == name) return bytes;
  }
  return 0;
}

const char* hr_error_text() {
  return headrace::capi::last_error_text();
}

void hr_set_log_level(int32_t level) {
  headrace::io::set_log_level(static_cast<headrace::io::LogLevel>(std::clamp(level, 0, 3)));
}

uint64_t hr_memory_limit_bytes() {
  return headrace::io::memory_limit_bytes();
}
