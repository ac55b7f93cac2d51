// SPDX-License-Identifier: Apache-2.0
// Keeps a mount alive when the process that serves it dies: readers see a pause, no error.
//
//   return supervise({.channel = {.mountpoint = "/mnt/x"},
//                     .worker = [&](Channel& channel, const std::function<void()>& ready) -> Status {
//                       ... open the store, Mount::start(*store, options, channel) ...; ready(); mount->wait(); ...
//                     }});
//
// The supervisor mounts, holds the descriptor of /dev/fuse, and runs the worker in a child process. When that is killed
// or crashes, the next child takes over the same connection: inode numbers follow from the catalog, the channel's
// takeover memory says what is in the page cache, and its log what was not answered (kernel/request_log.h). SIGTERM,
// SIGINT and SIGHUP are passed on to the worker, which ends and unmounts. If the supervisor itself is killed the worker
// ends the same way.
//
// A successor that cannot start (no descriptors are left, the source does not answer) does not end the mount:
// a stand-in answers from the source, and the supervisor tries again after 250 ms, later every 30 s.
//
// A worker's own threads use the mount too (they list it, they push into it). If it is killed while one of them waits
// for an answer that only the worker could give, it stays: the kernel lets nobody out of such a wait. Then a stand-in
// answers, without the worker's tiers and sockets, which it holds until it is gone. If the supervisor is killed at the
// same moment, nobody is left who could answer: readers wait until unmount() (fuse/channel.h) ends the connection, and
// get errors (ECONNABORTED) then.
//
// A worker that is stopped (SIGSTOP, a freezer) is noticed within a second. A stand-in answers until it goes on.
//
// Thread-safety: none. The calling process must have no other thread, for a fork takes only the calling one along.
#pragma once

#include <functional>

#include <sys/types.h>

#include "headrace/fuse/channel.h"
#include "headrace/io/result.h"

namespace headrace::fuse {

// Runs in a child process; its result is the result of supervise(). It calls `ready` once the mount is usable. Signals
// are as they were when supervise() was called, but those that tell it to stop are not blocked.
using Worker = std::function<Status(Channel& channel, const std::function<void()>& ready)>;

struct SupervisorOptions {
  ChannelOptions channel;
  Worker worker;
  // Answers the kernel (stand_in() in fuse/mount.h) until it is killed; empty: the mount ends in its place.
  std::function<Status(Channel& channel)> stand_in;
  std::function<void()> on_ready = [] {};                       // in the supervisor, when the first worker is ready
  std::function<void(int signal)> on_stop_signal = [](int) {};  // in the supervisor, before it is passed on
  // Another program is to go on with the mount; SIGUSR1 to the supervisor asks for it. The worker has gone then, and
  // the process `stand_in` answers. Becomes that program (execve(2)), which calls go_on(), or returns; then a worker of
  // this program takes over. Empty: SIGUSR1 does nothing.
  std::function<void(const Channel& channel, pid_t stand_in)> hand_over;
  // So many deaths within a minute are taken for a defect that a new process has too; the mount then ends.
  unsigned deaths_per_minute_max = 10;
};

// Returns when the mount has ended. Errors: as open_channel(), the worker's, kSystem (the worker died too often).
[[nodiscard]] Status supervise(const SupervisorOptions& options);

// Goes on where the program that called hand_over() stopped: in the same process, with its child that stands in.
[[nodiscard]] Status go_on(const SupervisorOptions& options, Channel channel, pid_t stand_in);

}  // namespace headrace::fuse
