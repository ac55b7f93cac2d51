// SPDX-License-Identifier: Apache-2.0
// What the lines on the control socket say. Version 1, one JSON object a line:
//
//   {"headrace": 1, "command": "stat", "arguments": {...}}
//   {"headrace": 1, "ok": true, "result": {...}}
//   {"headrace": 1, "ok": false, "code": "invalid", "error": "unknown command 'x'"}
//
// Members that are not known are ignored; a changed meaning gets a new version number.
// Thread-safety: any thread.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "headrace/io/result.h"

namespace headrace::cli {

inline constexpr int kProtocolVersion = 1;

[[nodiscard]] std::string format_request(std::string_view command, const nlohmann::json& arguments);
[[nodiscard]] std::string format_reply(const io::Result<nlohmann::json>& result);

// The result inside a reply. Errors: the daemon's own (code kept), or kCorrupt when the line is no reply of ours.
[[nodiscard]] io::Result<nlohmann::json> parse_reply(std::string_view line);

// Answers one request line with `handle(command, arguments)`; never throws, whatever the line holds.
// Paths that are not UTF-8 are shown with replacement characters.
using HandleCommand =
    std::function<io::Result<nlohmann::json>(const std::string& command, const nlohmann::json& arguments)>;
[[nodiscard]] std::string answer_request(std::string_view line, const HandleCommand& handle);

// Connects to the daemon of a mount point and asks. Errors: kNotFound with a sentence that names the remedy when no
// daemon serves the mount point; the daemon's own.
[[nodiscard]] io::Result<nlohmann::json> call_daemon(const std::filesystem::path& mount_point, std::string_view command,
                                                     const nlohmann::json& arguments);

}  // namespace headrace::cli
