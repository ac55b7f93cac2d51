// SPDX-License-Identifier: Apache-2.0
// Orders as they are given on a command line: one for the data set, or one for each of its folders.
//
//   auto orders = open_orders({"train=torch-distributed:seed=0", "val=sequential"}, catalog, ListFiles::kRegular);
//   options.orders.given = *orders;   // the first, and what else may be meant where the opens contradict it
//
// Thread-safety: pure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/cache/order.h"
#include "headrace/cli/setup/data_set.h"

namespace headrace::cli {

// In place of an order: it is found out from the opens.
inline constexpr std::string_view kLearnedOrder = "auto";

// "train=sequential": an order that names its folder.
struct NamedSpec {
  std::string folder;  // empty: none is named
  std::string spec;
};
[[nodiscard]] NamedSpec parse_named_spec(const std::string& text);

// An order without a name may be meant for the data set or for the folder that is read, numbered over that folder
// alone; where the names at the top (train, val) say that they are sets, the folders come first.
// Errors: those of make_order(); kNotFound (no such folder, or no samples in it); kInvalidArgument (folders that
// overlap; orders with and without names; more than PassOrder::kMaxSets).
[[nodiscard]] io::Result<std::vector<std::shared_ptr<const cache::Order>>> open_orders(
    const std::vector<std::string>& specs, const cache::Catalog& catalog, ListFiles lists);

// An order that was found in the opens as words that name it, for another process, and back. Null: they name none.
[[nodiscard]] std::vector<std::string> words_of_found(const cache::Order& order);
[[nodiscard]] std::shared_ptr<const cache::Order> open_found_order(const std::vector<std::string>& words,
                                                                   const cache::Catalog& catalog);

// The order of one folder, as an order of the data set. Errors: the same.
[[nodiscard]] io::Result<std::unique_ptr<cache::Order>> open_folder_order(const NamedSpec& named,
                                                                          const cache::Catalog& catalog,
                                                                          ListFiles lists);

}  // namespace headrace::cli
