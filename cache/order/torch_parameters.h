// SPDX-License-Identifier: Apache-2.0
// Parameters that the families built on torch share.
#pragma once

#include "headrace/cache/order/parameters.h"
#include "headrace/cache/order/torch_randperm.h"

namespace headrace::cache {

// torch=MAJOR.MINOR; the default stands for every current release.
[[nodiscard]] TorchVersion read_torch_version(Parameters& parameters);

// Moves a generator that runs on over the epochs to `within` outputs into `epoch`.
// Errors: kInvalidArgument, an epoch so far off that getting there would take minutes.
[[nodiscard]] io::Status skip(Mt19937& generator, std::uint64_t epoch, std::uint64_t outputs_per_epoch,
                              std::uint64_t within);

}  // namespace headrace::cache
