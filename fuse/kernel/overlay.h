// SPDX-License-Identifier: Apache-2.0
// A read-only overlayfs over a mount, at the same path. Python before 3.14 sends ioctl(TCGETS) on every open(), which
// FUSE cannot remember as refused; overlayfs refuses it in the kernel. It passes everything else through, and the pages
// stay those of the mount below.
//
//   Status placed = mount_overlay("/mnt/imagenet");
//
// Thread-safety: any thread.
#pragma once

#include <filesystem>

#include "headrace/io/result.h"

namespace headrace::fuse {

// Errors: kPermission (not root), kUnsupported (no overlayfs in this kernel or not over this), kSystem.
[[nodiscard]] io::Status mount_overlay(const std::filesystem::path& path);

}  // namespace headrace::fuse
