// SPDX-License-Identifier: Apache-2.0
// Engine on a pool of threads that call pread(2) and friends: works everywhere, costs a thread per read in flight.
#pragma once

#include <memory>
#include <string>

#include "headrace/io/engine.h"

namespace headrace::io {

// `fallback_reason` is shown in EngineInfo. Errors: kSystem when not even one thread can be started.
[[nodiscard]] Result<std::unique_ptr<Engine>> open_pread_engine(const EngineOptions& options,
                                                                std::string fallback_reason);

}  // namespace headrace::io
