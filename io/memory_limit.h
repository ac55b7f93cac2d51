// SPDX-License-Identifier: Apache-2.0
// The memory that this machine, or the container we run in, lets us use.
//
//   const std::uint64_t budget = memory_limit_bytes() / 4;
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "headrace/io/control_group.h"

namespace headrace::io {

// Memory that this process may use: the machine's, or what its control groups allow where that is less.
[[nodiscard]] std::uint64_t memory_limit_bytes();

// What the control groups of the calling process allow: the least limit of the whole path; nullopt: there is none.
[[nodiscard]] std::optional<std::uint64_t> control_group_memory_limit(const ControlGroupPaths& paths = {});

// Whether a control group of the calling process uses nearly all that it may, page cache included. Pages that the
// kernel drops then are dropped because that group lacks memory.
[[nodiscard]] bool is_near_memory_limit(const ControlGroupPaths& paths = {});

}  // namespace headrace::io
