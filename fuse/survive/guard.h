// SPDX-License-Identifier: Apache-2.0
// A process that ends the connection of a mount when nobody is left who could answer.
//
//   Result<Guard> guard = Guard::start(channel);          // in the supervisor, before it has a worker
//   life_line.hold(guard->told_fd());                     // in each worker
//
// Killed while one of its threads waits for an answer of its own mount, a worker keeps the descriptor of /dev/fuse: the
// connection lives, unanswered, and whoever reads waits for ever. The supervisor's stand-in ends that; when the
// supervisor is killed too, the guard does. It has nothing of the mount open and waits for nothing but a pipe.
//
// Thread-safety: none. Ownership: the process ends with the Guard.
#pragma once

#include <sys/types.h>

#include "headrace/fuse/channel.h"
#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"

namespace headrace::fuse {

class Guard {
 public:
  // Forks: the calling process has no other thread. Errors: kSystem.
  [[nodiscard]] static io::Result<Guard> start(const Channel& channel);
  Guard(Guard&& other) noexcept;
  Guard& operator=(Guard&&) = delete;
  ~Guard();

  // The guard acts once this is closed everywhere; a byte written to it sends the guard home.
  [[nodiscard]] int told_fd() const { return told_.get(); }

 private:
  Guard(pid_t process, io::UniqueFd told) : process_(process), told_(std::move(told)) {}

  pid_t process_;
  io::UniqueFd told_;
};

}  // namespace headrace::fuse
