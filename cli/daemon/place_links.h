// SPDX-License-Identifier: Apache-2.0
// How a daemon is found. It listens at a socket that is called after the device of its mount, and each place where the
// mount is shown has a link to that socket (control_socket_of()). So a place may go to another daemon while this one is
// still shown elsewhere.
//
//   HEADRACE_TRY(socket, daemon_socket_of("/mnt/imagenet", "0:35"));
//   HEADRACE_TRY(server, ControlServer::start(socket, answer));
//   HEADRACE_TRY(links, PlaceLinks::make(socket, "/mnt/imagenet", "0:35"));   // as long as the daemon listens
//
// Thread-safety: any thread. Processes that link the same place take turns (MountTurn).
#pragma once

#include <filesystem>
#include <string>

#include "headrace/io/result.h"

namespace headrace::cli {

// Errors: those of io::runtime_directory().
[[nodiscard]] io::Result<std::filesystem::path> daemon_socket_of(const std::filesystem::path& mount_point,
                                                                 const std::string& device);

// Ownership: move-only; removes the links at its end.
class PlaceLinks {
 public:
  // Links every place that shows `device`, which was mounted at `mount_point` at first.
  // Errors: kBusy (the daemon of a mount at the same place answers, and is not shown anywhere else), kSystem.
  [[nodiscard]] static io::Result<PlaceLinks> make(const std::filesystem::path& socket,
                                                   const std::filesystem::path& mount_point, const std::string& device);
  ~PlaceLinks();
  PlaceLinks(PlaceLinks&& other) noexcept;
  PlaceLinks& operator=(PlaceLinks&&) = delete;

 private:
  explicit PlaceLinks(std::filesystem::path socket) : socket_(std::move(socket)) {}
  std::filesystem::path socket_;  // empty: moved from
};

// Leads a place to the daemon of another place, `shown`.
[[nodiscard]] io::Status link_place(const std::filesystem::path& place, const std::filesystem::path& shown);
void unlink_place(const std::filesystem::path& place);

}  // namespace headrace::cli
