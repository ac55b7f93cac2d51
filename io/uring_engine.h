// SPDX-License-Identifier: Apache-2.0
// Engine on io_uring: one ring, driven by one thread; a file is opened, read and closed in one system call.
#pragma once

#include <cstdint>
#include <memory>

#include "headrace/io/engine.h"

namespace headrace::io {

// Makes this kernel look older or stricter, so that tests reach every fall-back. The defaults hide nothing.
struct UringMask {
  std::uint32_t refused_setup_flags = 0;          // IORING_SETUP_* answered with EINVAL
  std::uint64_t transfer_bytes_max = UINT64_MAX;  // larger transfers come back short, as the kernel may do
};

// To be called on the thread that will drive the engine.
// Errors: kUnsupported, kPermission or kSystem: io_uring cannot be had here. The context says which part of it.
[[nodiscard]] Result<std::unique_ptr<Engine>> open_uring_engine(const EngineOptions& options,
                                                                const UringMask& mask = {});

}  // namespace headrace::io
