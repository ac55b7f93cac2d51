// SPDX-License-Identifier: Apache-2.0
// Parameters that the families built on torch share.
#pragma once

#include "headrace/cache/order/parameters.h"
#include "headrace/cache/order/torch_randperm.h"

namespace headrace::cache {

// torch=MAJOR.MINOR; the default stands for every current release.
[[nodiscard]] TorchVersion read_torch_version(Parameters& parameters);

}  // namespace headrace::cache
