// SPDX-License-Identifier: Apache-2.0
// One maker per family of orders, each in the file of its name. Called by make_order with the family's parameters; the
// maker reads them all, calls finish() and returns the order. README.md lists families and parameters.
#pragma once

#include <memory>

#include "headrace/cache/order.h"
#include "headrace/cache/order/parameters.h"

namespace headrace::cache {

using OrderResult = Result<std::unique_ptr<Order>>;

[[nodiscard]] OrderResult make_sequential(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_torch_distributed(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_file_order(Parameters& parameters, const OrderInput& input);

}  // namespace headrace::cache
