// SPDX-License-Identifier: Apache-2.0
// An order over the samples of one catalog, in the numbers that these have in another one.
//
//   std::vector<SampleIndex> numbers = new_numbers(before, now);
//   auto order = renumber_order(order_before, numbers);   // what a program reads that listed the files before
//
// Thread-safety: as the order. Memory: 4 bytes per sample.
#pragma once

#include <memory>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/cache/order.h"

namespace headrace::cache {

// By sample of `before`: its number in `now`. Empty: not each of them is a sample there.
[[nodiscard]] std::vector<SampleIndex> new_numbers(const Catalog& before, const Catalog& now);

// Precondition: a number for each sample that the order names. Its spec is the one of `order`.
[[nodiscard]] std::shared_ptr<const Order> renumber_order(std::shared_ptr<const Order> order,
                                                          std::vector<SampleIndex> numbers);

}  // namespace headrace::cache
