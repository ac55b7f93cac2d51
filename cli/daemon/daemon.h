// SPDX-License-Identifier: Apache-2.0
// Runs a job in the background or in the foreground, and tells whoever waits that it is ready.
//
//   return run_detached({.log_name = "mnt.log"}, [&](const ReadyCallback& ready, const CountCallback& count) {
//     ... start, count(n) ...; ready(); stop.wait(); ... end ...; return io::Status();
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "headrace/io/result.h"

namespace headrace::cli {

using ReadyCallback = std::function<void()>;
using CountCallback = std::function<void(std::uint64_t count)>;
// `count`: how far the start is.
using DaemonBody = std::function<io::Status(const ReadyCallback& ready, const CountCallback& count)>;

struct DaemonOptions {
  // Name of the log file in io::log_directory(). It is used where there is no journal.
  std::string log_name;
  CountCallback on_count = {};  // runs in the process that waits, with what the body counted last
};

// Runs `body` in a child process with a session of its own. Returns when the body calls ready(), or with its error when
// it ends before that. SIGINT and SIGTERM meanwhile end the child. The child never returns from here: it exits with 0
// or 1. Must be called before the process has threads.
[[nodiscard]] io::Status run_detached(const DaemonOptions& options, const DaemonBody& body);

// Runs `body` in this process. ready() tells systemd ($NOTIFY_SOCKET, sd_notify(3)) if it listens.
[[nodiscard]] io::Status run_in_foreground(const DaemonBody& body);

}  // namespace headrace::cli
