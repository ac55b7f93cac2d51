// SPDX-License-Identifier: Apache-2.0
// What the lines on the control socket say. Version 1, one JSON object a line:
//
//   {"headrace": 1, "command": "stat", "arguments": {...}}
//   {"headrace": 1, "ok": true, "result": {...}}
//   {"headrace": 1, "ok": false, "code": "invalid", "error": "unknown command 'x'"}
//
// Unknown members are ignored. A member whose meaning changes needs a new version number.
// Thread-safety: any thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>
#include <sys/types.h>

#include "headrace/io/result.h"

namespace headrace::cli {

inline constexpr int kProtocolVersion = 1;

[[nodiscard]] std::string format_request(std::string_view command, const nlohmann::json& arguments);
[[nodiscard]] std::string format_reply(const io::Result<nlohmann::json>& result);

// The result inside a reply. Errors: the daemon's own, with its code; kCorrupt when the line is no reply of ours.
[[nodiscard]] io::Result<nlohmann::json> parse_reply(std::string_view line);

// Answers one request line with `handle(command, arguments)`. Never throws, whatever the line holds. Bytes of a path
// that are no UTF-8 are replaced.
using HandleCommand =
    std::function<io::Result<nlohmann::json>(const std::string& command, const nlohmann::json& arguments)>;
[[nodiscard]] std::string answer_request(std::string_view line, const HandleCommand& handle);

// Whether this user's runtime folder has the socket of a mount point. It stays while one worker takes the place of
// another, and goes with the daemon.
[[nodiscard]] bool has_socket(const std::filesystem::path& mount_point);

// Connects to the daemon of a mount point and asks it. Where the point is mounted and has a socket, but no daemon
// listens, it waits for up to ten seconds: a process is about to take the place of another one. Without a socket it
// waits for half a second.
// Errors: kNotFound when no daemon serves the mount point (the sentence names the remedy); kTimedOut when its process
// is stopped, does not begin to listen, or has not answered within `patience`; the daemon's own.
[[nodiscard]] io::Result<nlohmann::json> call_daemon(const std::filesystem::path& mount_point, std::string_view command,
                                                     const nlohmann::json& arguments,
                                                     std::chrono::milliseconds patience = std::chrono::milliseconds{
                                                         10'000});

// The same of a question, which may be asked twice: where a daemon ends before it has answered, its successor is asked.
[[nodiscard]] io::Result<nlohmann::json> query_daemon(const std::filesystem::path& mount_point,
                                                      std::string_view command,
                                                      std::chrono::milliseconds patience = std::chrono::milliseconds{
                                                          10'000});

// The same where `target` may be any folder or bucket. nullopt: it is no mount, or not one that can be asked.
// Errors: kTimedOut as above. To go on as if it were no mount would be another command than was given.
[[nodiscard]] io::Result<std::optional<nlohmann::json>> call_daemon_if_mounted(const std::filesystem::path& target,
                                                                               std::string_view command);

struct DaemonProcesses {
  pid_t worker = 0;      // serves, and answers on the socket
  pid_t supervisor = 0;  // its parent, which ends last; the worker itself where it has lost its supervisor
};
// nullopt: no daemon listens for this mount point.
[[nodiscard]] std::optional<DaemonProcesses> find_daemon(const std::filesystem::path& mount_point);

}  // namespace headrace::cli
