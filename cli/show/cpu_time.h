// SPDX-License-Identifier: Apache-2.0
// What this process takes of the processors.
//
//   const double before = cpu_seconds();
//
// Thread-safety: any thread.
#pragma once

namespace headrace::cli {

// That all of its threads have taken so far, in the kernel as well.
[[nodiscard]] double cpu_seconds();

}  // namespace headrace::cli
