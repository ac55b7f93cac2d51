// SPDX-License-Identifier: Apache-2.0
// Lets go of the descriptors that a forked process, or a thread with a table of its own, has from others.
//
//   HEADRACE_TRY_DO(io::close_others({}));   // all but the standard streams
//
// Thread-safety: any thread; closes what all that share its table of descriptors have open. Allocates nothing, so that
// a process may call it after fork().
#pragma once

#include <span>

#include "headrace/io/result.h"

namespace headrace::io {

// Closes all descriptors but the standard streams and `kept`, which is sorted. Where the kernel (before 5.9) or a
// filter refuses close_range(2), it closes what /proc lists. Errors: kSystem (there is no /proc); all stay open then.
[[nodiscard]] Status close_others(std::span<const int> kept);

}  // namespace headrace::io
