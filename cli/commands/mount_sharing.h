// SPDX-License-Identifier: Apache-2.0
// Several mounts on one machine. What is mounted already with the same options is shown at the second place by the same
// daemon: one memory, one set of reads of the source, one set of tiers. Any other mount takes of the memory what the
// others leave.
//
//   HEADRACE_TRY(turn, MountTurn::take(plan.source.path));
//   HEADRACE_TRY(is_shown, show_by_neighbour(arguments, plan, all));
//   if (!is_shown) take_share_of_memory(arguments, all);
//   if (is_shown) bring_up_to_date(plan.mount_point);
//
// Thread-safety: none.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "headrace/cli/commands/mount.h"
#include "headrace/cli/commands/mount_plan.h"
#include "headrace/cli/daemon/neighbours.h"
#include "headrace/io/result.h"
#include "headrace/io/unique_fd.h"

namespace headrace::cli {

// Of the processes that mount one source at the same time one goes first, so that the others find its daemon.
class MountTurn {
 public:
  // Waits, and says so, while another process begins to mount this source. Errors: kSystem.
  [[nodiscard]] static io::Result<MountTurn> take(const std::filesystem::path& source);
  ~MountTurn() { end(); }
  MountTurn(MountTurn&& other) noexcept : file_(std::move(other.file_)), lock_(std::move(other.lock_)) {}
  MountTurn& operator=(MountTurn&&) = delete;

  // The mount can be found; the next one may go.
  void end();
  // In a child: the turn is its parent's.
  void leave() { lock_.reset(); }

 private:
  MountTurn(std::filesystem::path file, io::UniqueFd lock) : file_(std::move(file)), lock_(std::move(lock)) {}
  std::filesystem::path file_;
  io::UniqueFd lock_;
};

// True: one of them shows it at the mount point of the plan, too. A line on stderr says so, or why one that shows the
// same source cannot. Errors: as fuse::show_also_at(); kBusy (a daemon that was mounted there is shown elsewhere,
// and cannot serve this mount).
[[nodiscard]] io::Result<bool> show_by_neighbour(const MountArguments& arguments, const MountPlan& plan,
                                                 const std::vector<Neighbour>& all);

// Behind show_by_neighbour(): the names and the files that it shows are those that the source has now, as those of a
// mount of its own would be. A line on stderr says where they are not, or not yet.
void bring_up_to_date(const std::filesystem::path& mount_point);

// Where no --ram was given, and others have memory: adds one, and returns a line about it for the log. Else an empty
// one.
[[nodiscard]] std::string take_share_of_memory(MountArguments& arguments, const std::vector<Neighbour>& all);

}  // namespace headrace::cli
