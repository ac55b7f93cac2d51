// SPDX-License-Identifier: Apache-2.0
// The orders that somebody may read along, as they are known when a process begins.
// Thread-safety: as a plain value; the orders are shared and immutable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "headrace/cache/order.h"

namespace headrace::cache {

struct OrderCandidates {
  // They are tried in turn: the first until the opens contradict it, then the next. Empty: the order is unknown.
  std::vector<std::shared_ptr<const Order>> given = {};
  std::uint64_t first_epoch = 0;  // of each of them
  // The order over the samples of the catalog before the present one, in today's numbers: a training that was under way
  // goes on with these. It is followed first, from where its reader was. Null: there is none.
  std::shared_ptr<const Order> before = nullptr;
  // A process before this one found the first of `given` in the opens, and how; empty: somebody gave it.
  std::string found_by = {};
  // The order is found out from the opens, of records from the READs, where none is given or none is left.
  bool learn = false;
  std::filesystem::path record_folder = {};  // where learned orders are kept from run to run; empty: nowhere
  // Hears of an order that is found, and how, for a process that takes over: it is given it first. Null: it is not
  // known any more. It is called under a lock and must not block. Empty: nobody wants to know.
  std::function<void(const Order* order, const std::string& found_by)> on_found = {};
};

}  // namespace headrace::cache
