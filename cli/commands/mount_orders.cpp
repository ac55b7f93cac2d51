// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/commands/mount_orders.h"

#include <memory>
#include <utility>

#include "headrace/cache/pass_order.h"
#include "headrace/cache/renumbered_order.h"
#include "headrace/cli/setup/sets.h"
#include "headrace/io/log.h"

namespace headrace::cli {
namespace {

using cache::Catalog;
using cache::OrderCandidates;
using Specs = std::vector<std::string>;

bool is_one(const Specs& specs, std::string_view spec) {
  return specs.size() == 1 && specs.front() == spec;
}

// Null: the mount shows the names that it began with, or it is not plain what a training would go on with.
std::shared_ptr<const cache::Order> open_order_before(const Specs& specs, const Catalog& catalog, int before_fd) {
  if (before_fd < 0) return nullptr;
  const io::Result<Catalog> before = Catalog::load_fd(before_fd);
  if (!before) return nullptr;
  auto orders = open_orders(specs, *before, ListFiles::kRegular);
  std::vector<cache::SampleIndex> numbers = cache::new_numbers(*before, catalog);
  const bool is_plain = orders && std::dynamic_pointer_cast<const cache::PassOrder>(orders->front()) == nullptr;
  if (!is_plain || numbers.empty()) return nullptr;
  return cache::renumber_order(std::move(orders->front()), std::move(numbers));
}

io::Status give(const Specs& specs, const Catalog& catalog, int before_fd, OrderCandidates& candidates) {
  if (specs.empty() || is_one(specs, "") || is_one(specs, kLearnedOrder)) return {};
  HEADRACE_TRY(orders, open_orders(specs, catalog, ListFiles::kRegular));
  candidates.given = std::move(orders);
  candidates.before = open_order_before(specs, catalog, before_fd);
  return {};
}

// The worker before this one may have found the order, and a search takes up to an hour of a core.
void go_on_with_found(KeptSettings& kept, const Catalog& catalog, OrderCandidates& candidates) {
  candidates.on_found = [&kept](const cache::Order* order, const std::string& found_by) {
    Specs words;
    if (order != nullptr) words = words_of_found(*order);
    if (order != nullptr) words.insert(words.begin(), found_by);
    if (!kept.keep_found_order(words)) io::log_warning("the order is too long to be kept for another process");
  };
  Specs found = kept.found_order();
  if (found.empty()) return;
  std::shared_ptr<const cache::Order> order = open_found_order({found.begin() + 1, found.end()}, catalog);
  if (!order) return;
  if (candidates.given.empty()) candidates.given.emplace_back();
  candidates.given.front() = std::move(order);
  candidates.found_by = found.front();
}

}  // namespace

io::Result<OrderCandidates> mount_orders(const MountPlan& plan, KeptSettings& kept, const Catalog& catalog,
                                         int before_fd, Specs& fallbacks) {
  OrderCandidates candidates{.learn = !plan.orders.empty() && !is_one(plan.orders, ""),
                             .record_folder = plan.order_records};
  const Specs set = kept.orders();
  const io::Status is_set = give(set, catalog, before_fd, candidates);
  if (!is_set)
    fallbacks.push_back("the order that was set is not one of what is there now: " + is_set.error().message());
  if (set.empty() || !is_set) {
    io::Status is_given = give(plan.orders, catalog, before_fd, candidates);
    if (!is_given && before_fd < 0) return tl::unexpected(std::move(is_given.error()));
    if (!is_given)  // it named a file that has gone, and readers are here
      fallbacks.push_back("the order is not one of what is there now: " + is_given.error().message());
  }
  if (candidates.learn) go_on_with_found(kept, catalog, candidates);
  return candidates;
}

}  // namespace headrace::cli
