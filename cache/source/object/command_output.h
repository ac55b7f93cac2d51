// SPDX-License-Identifier: Apache-2.0
// What a command of the user's prints: the credential_process of a profile.
//
//   HEADRACE_TRY(text, command_output("/opt/keys --json", 60s));
//
// Thread-safety: any thread; it blocks.
#pragma once

#include <chrono>
#include <string>

#include "headrace/cache/source/object/stop_event.h"
#include "headrace/io/result.h"

namespace headrace::cache {

// Run by /bin/sh; its errors go to this program's stderr, its input is empty. The text may hold a secret: the caller
// overwrites it.
// Errors: kSystem (it cannot be run, it ends with an error), kTimedOut and kCancelled (`stop`; it is killed),
// kInvalidArgument (over 64 KiB).
[[nodiscard]] io::Result<std::string> command_output(const std::string& command, std::chrono::milliseconds wait,
                                                     const StopEvent* stop = nullptr);

}  // namespace headrace::cache
