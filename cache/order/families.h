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
[[nodiscard]] OrderResult make_torch_random(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_torch_subset(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_ra_sampler(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_hf_trainer(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_detectron2(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_mmengine(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_numpy(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_python(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_dali(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_ffcv(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_dlio(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_grain(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_streaming(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_litdata(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_torch_weighted(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_webdataset(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_megatron(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_keras(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_first(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_recorded(Parameters& parameters, const OrderInput& input);
[[nodiscard]] OrderResult make_file_order(Parameters& parameters, const OrderInput& input);

// The samples that a text file lists (file_order.cpp has its form).
[[nodiscard]] Result<std::vector<SampleIndex>> read_order_file(const std::string& path, const OrderInput& input);
// One number per line, as read_order_file() reads lines.
[[nodiscard]] Result<std::vector<double>> read_number_file(const std::string& path, const OrderInput& input);

}  // namespace headrace::cache
