// SPDX-License-Identifier: Apache-2.0
// Which orders there are, for help texts and tests.
//
//   for (const OrderFamily& family : order_families()) print(family.name, family.example);
//
// Thread-safety: pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headrace::cache {

struct OrderFamily {
  std::string_view name;
  std::string_view drawn_by;
  std::string_view example;                  // a spec that make_order takes, files and folders in it aside
  std::vector<std::string> parameters = {};  // that can stand beside those of the example
};
[[nodiscard]] std::vector<OrderFamily> order_families();

}  // namespace headrace::cache
