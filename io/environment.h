// SPDX-License-Identifier: Apache-2.0
// Reads the environment. Nothing in this program changes it, so every thread may.
#pragma once

#include <cstdlib>

namespace headrace::io {

// nullptr when there is no such variable.
[[nodiscard]] inline const char* environment(const char* name) {
  return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): it only races with setenv(), which nobody calls
}

}  // namespace headrace::io
