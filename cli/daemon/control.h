// SPDX-License-Identifier: Apache-2.0
// Carries one line of question and one line of answer over a unix socket that only its owner and root can reach.
//
//   auto server = ControlServer::start(socket_path, [](std::string_view line) { return answer(line); });
//   auto client = ControlClient::connect(socket_path);
//   Result<std::string> reply = client->ask("{...}");
//
// The lines are JSON (protocol.h). A peer that sends too much, sends too slowly or does not read its answer is
// disconnected and disturbs nobody else.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "headrace/io/result.h"

namespace headrace::cli {

// A request is a command and a few paths (at most PATH_MAX each).
inline constexpr std::size_t kRequestBytesMax = std::size_t{64} << 10;
// The largest reply is a stat with its tiers: a few KiB. A peer that sends more than this is no daemon of ours.
inline constexpr std::size_t kReplyBytesMax = std::size_t{4} << 20;

// Thread-safety: the owner starts and destroys it. `answer` runs on the server's one thread and must be prompt.
class ControlServer {
 public:
  using Answer = std::function<std::string(std::string_view request)>;

  struct Limits {
    std::size_t connections_max = 16;            // stat --watch, a metrics exporter, a warm and a dozen shells
    std::chrono::milliseconds patience{10'000};  // for a request to arrive, and for its reply to be read
    // For a daemon that has the socket still: one whose mount has just gone ends within a second.
    std::chrono::milliseconds leave_patience{5'000};
  };

  // Makes the socket with mode 0600. Replaces a socket that a dead process left behind.
  // Errors: kBusy (a live process answers there, and goes on), kInvalidArgument (path too long for a socket), kSystem.
  [[nodiscard]] static io::Result<std::unique_ptr<ControlServer>> start(const std::filesystem::path& socket,
                                                                        Answer answer, Limits limits);
  [[nodiscard]] static io::Result<std::unique_ptr<ControlServer>> start(const std::filesystem::path& socket,
                                                                        Answer answer) {
    return start(socket, std::move(answer), Limits{});
  }
  ~ControlServer();  // closes every connection, removes the socket, joins the thread
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  ControlServer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Thread-safety: one thread at a time. Ownership: move-only, closes on destruction.
class ControlClient {
 public:
  // Errors: kNotFound (nobody listens there), kPermission.
  [[nodiscard]] static io::Result<ControlClient> connect(const std::filesystem::path& socket);
  ~ControlClient();
  ControlClient(ControlClient&& other) noexcept;
  ControlClient& operator=(ControlClient&&) = delete;

  // Whether the peer has hung up by then. Asks nothing.
  [[nodiscard]] bool wait_for_hang_up(std::chrono::steady_clock::time_point deadline);
  // The process that listens there; 0: it cannot be told.
  [[nodiscard]] pid_t peer() const;
  // Sends a line and waits for the line that answers it. Both are without the line end.
  // Errors: kTimedOut, kCorrupt (reply too long), kNotFound (the daemon ended).
  [[nodiscard]] io::Result<std::string> ask(std::string_view line,
                                            std::chrono::milliseconds patience = std::chrono::milliseconds{10'000});

 private:
  explicit ControlClient(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace headrace::cli
