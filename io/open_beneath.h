// SPDX-License-Identifier: Apache-2.0
// Opens a file below a directory and never anything else: no "..", no absolute path, no symlink on the way.
//
//   int fd = open_beneath(dir_fd, "class/a.jpg", O_RDONLY | O_CLOEXEC);   // -errno when it fails
//
// openat2(2) does it in the kernel; where a container's filter hides that call, the path is walked one name at a time.
// Thread-safety: any thread. Ownership: the descriptor is the caller's.
#pragma once

#include <cstdint>

namespace headrace::io {

// The rules as openat2's `resolve` mask: RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS.
inline constexpr std::uint64_t kResolveBeneath = 0x08 | 0x04 | 0x02;

// The descriptor, or -errno: -EXDEV for a path that would leave the directory, -ELOOP (-ENOTDIR
// when walking) for a symlink.
[[nodiscard]] int open_beneath(int dir_fd, const char* path, int flags);
// The same where the kernel has the whole path in its dentry cache, so that nothing waits. -EAGAIN: it has not. Kernels
// before Linux 5.12, which lack RESOLVE_CACHED, and filters that hide openat2 always fail.
[[nodiscard]] int open_beneath_if_cached(int dir_fd, const char* path, int flags);

}  // namespace headrace::io
