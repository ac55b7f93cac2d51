// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/survive/own_descriptors.h"

#include <cerrno>

#include <sched.h>

#include "headrace/io/close_others.h"

namespace headrace::fuse {

io::Status keep_only(std::span<const int> kept) {
  if (::unshare(CLONE_FILES) != 0) return io::system_error(errno, "a table of descriptors of its own");
  return io::close_others(kept);
}

}  // namespace headrace::fuse
