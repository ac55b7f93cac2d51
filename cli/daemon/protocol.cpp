// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/protocol.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/daemon/control.h"
#include "headrace/cli/daemon/processes.h"
#include "headrace/cli/setup/places.h"
#include "headrace/cli/show/json.h"
#include "headrace/fuse/mounts.h"
#include "headrace/io/process_state.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kVersionKey = "headrace";

std::string to_line(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool has_version(const json& object) {
  return number_of(object, kVersionKey) == kProtocolVersion;
}

ErrorCode code_named(std::string_view name) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kBusy); ++code) {
    if (io::name_of(static_cast<ErrorCode>(code)) == name) return static_cast<ErrorCode>(code);
  }
  return ErrorCode::kSystem;
}

}  // namespace

std::string format_request(std::string_view command, const json& arguments) {
  return to_line({{kVersionKey, kProtocolVersion}, {"command", command}, {"arguments", arguments}});
}

std::string format_reply(const io::Result<json>& result) {
  if (result) return to_line({{kVersionKey, kProtocolVersion}, {"ok", true}, {"result", *result}});
  return to_line({{kVersionKey, kProtocolVersion},
                  {"ok", false},
                  {"code", io::name_of(result.error().code)},
                  {"errno", result.error().os_errno},
                  {"error", result.error().context}});
}

io::Result<json> parse_reply(std::string_view line) {
  const json reply = json::parse(line, nullptr, false);
  if (!has_version(reply) || !member_of(reply, "ok").is_boolean()) {
    return make_error(ErrorCode::kCorrupt, "the daemon's answer makes no sense; is the daemon of another version?");
  }
  if (flag_of(reply, "ok")) return member_of(reply, "result");
  return make_error(code_named(text_of(reply, "code")), text_of(reply, "error"),
                    static_cast<int>(number_of(reply, "errno")));
}

std::string answer_request(std::string_view line, const HandleCommand& handle) {
  const json request = json::parse(line, nullptr, false);
  if (!request.is_object()) {
    return format_reply(make_error(ErrorCode::kInvalidArgument, "a request is one JSON object on one line"));
  }
  if (!has_version(request)) {
    return format_reply(
        make_error(ErrorCode::kUnsupported, fmt::format("this daemon speaks protocol version {}", kProtocolVersion)));
  }
  return format_reply(handle(text_of(request, "command"), member_of(request, "arguments")));
}

namespace {

// A process that takes the place of another one (after a death, or at an upgrade) listens within a second. Reading a
// catalog of ten million files takes longer.
constexpr milliseconds kStartPatience{10'000};
// Where no socket has the name, only a mount that starts just now is to come; one of another runtime folder or of a
// container never does.
constexpr milliseconds kNoSocketPatience{500};
constexpr milliseconds kRetryInterval{20};

// Waits for a daemon that is only about to listen.
io::Result<ControlClient> connect_to(const std::filesystem::path& mount_point, milliseconds patience) {
  HEADRACE_TRY(socket, control_socket_of(mount_point));
  const std::filesystem::path path = canonical_path(mount_point);
  const auto begin = steady_clock::now();
  while (true) {
    io::Result<ControlClient> client = ControlClient::connect(socket);
    if (client || client.error().code != ErrorCode::kNotFound) return client;
    const milliseconds longest = has_socket(mount_point) ? kStartPatience : kNoSocketPatience;
    const auto until = begin + std::min(patience, longest);
    const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
    if (!fuse::has_living_mount(path, std::max(left, kRetryInterval))) {
      return make_error(ErrorCode::kNotFound,
                        fmt::format("{0} is no running headrace mount of yours; start one with headrace mount SOURCE "
                                    "{0}",
                                    mount_point.string()));
    }
    if (left <= milliseconds::zero()) {
      return make_error(ErrorCode::kTimedOut,
                        fmt::format("{} is mounted, but its daemon does not listen: it is still starting, or was "
                                    "started with other folders than {}; try again, its log says why it takes long",
                                    mount_point.string(), socket.parent_path().string()));
    }
    std::this_thread::sleep_for(kRetryInterval);
  }
}

// What it is called; that of an upgrade may lie elsewhere, and a replaced file counts as deleted. Empty: not known.
std::string program_of(pid_t pid) {
  std::error_code failure;
  const std::string file = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), failure).filename().string();
  return file.substr(0, file.rfind(" (deleted)"));
}

// The line that answers a request; nullopt: the daemon ended before.
io::Result<std::optional<std::string>> ask(const std::filesystem::path& mount_point, std::string_view request,
                                           milliseconds patience) {
  HEADRACE_TRY(client, connect_to(mount_point, patience));
  if (const std::optional<io::ProcessState> state = io::process_state(client.peer()); state && state->is_stopped) {
    return make_error(ErrorCode::kTimedOut,
                      fmt::format("the process that serves {0} (pid {1}) is stopped and answers nobody; kill -CONT {1} "
                                  "lets it go on",
                                  mount_point.string(), client.peer()));
  }
  io::Result<std::string> reply = client.ask(request, patience);
  if (reply) return std::optional<std::string>(std::move(*reply));
  if (reply.error().code == ErrorCode::kNotFound) return std::optional<std::string>();
  return io::forward_error(std::move(reply));
}

io::Result<json> outcome_of(const std::optional<std::string>& reply) {
  if (reply) return parse_reply(*reply);
  // What was asked may have been done or not.
  return make_error(ErrorCode::kNotFound, "the daemon ended before it answered; where the mount goes on, call again");
}

}  // namespace

bool has_socket(const std::filesystem::path& mount_point) {
  const io::Result<std::filesystem::path> socket = control_socket_of(mount_point);
  std::error_code failure;
  return socket && std::filesystem::exists(*socket, failure);
}

io::Result<json> call_daemon(const std::filesystem::path& mount_point, std::string_view command, const json& arguments,
                             milliseconds patience) {
  HEADRACE_TRY(reply, ask(mount_point, format_request(command, arguments), patience));
  return outcome_of(reply);
}

io::Result<json> query_daemon(const std::filesystem::path& mount_point, std::string_view command,
                              milliseconds patience) {
  const std::string request = format_request(command, json::object());
  HEADRACE_TRY(reply, ask(mount_point, request, patience));
  if (reply) return parse_reply(*reply);
  HEADRACE_TRY(next, ask(mount_point, request, patience));
  return outcome_of(next);
}

io::Result<std::optional<json>> call_daemon_if_mounted(const std::filesystem::path& target, std::string_view command) {
  io::Result<json> reply = query_daemon(target, command);
  if (reply) return std::optional<json>(std::move(*reply));
  if (reply.error().code == ErrorCode::kTimedOut) return io::forward_error(std::move(reply));
  return std::optional<json>();
}

std::optional<DaemonProcesses> find_daemon(const std::filesystem::path& mount_point) {
  const io::Result<std::filesystem::path> socket = control_socket_of(mount_point);
  if (!socket) return std::nullopt;
  const io::Result<ControlClient> client = ControlClient::connect(*socket);
  if (!client) return std::nullopt;
  const std::optional<io::ProcessState> worker = io::process_state(client->peer());
  if (!worker) return std::nullopt;
  // The parent of a worker that has lost its supervisor is somebody else: the init process, or a session's manager.
  const bool has_supervisor = worker->parent != 0 && program_of(worker->parent) == program_of(client->peer());
  return DaemonProcesses{.worker = client->peer(), .supervisor = has_supervisor ? worker->parent : client->peer()};
}

}  // namespace headrace::cli
