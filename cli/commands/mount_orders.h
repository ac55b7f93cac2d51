// SPDX-License-Identifier: Apache-2.0
// The orders that a process of a mount begins with. What was set while the mount was read goes before what it was
// mounted with, and what the process before found in the opens goes before both.
//
//   HEADRACE_TRY(orders, mount_orders(plan, kept, store.catalog(), channel.catalog_before_fd(), options.fallbacks));
//
// Thread-safety: none; what is found is kept from a thread of the mount. Ownership: `kept` outlives the mount.
#pragma once

#include <string>
#include <vector>

#include "headrace/cache/catalog.h"
#include "headrace/cache/order_candidates.h"
#include "headrace/cli/commands/mount_plan.h"
#include "headrace/cli/daemon/kept_settings.h"

namespace headrace::cli {

// `before_fd`: the catalog that the mount began with, whose readers are here; -1: it is the present one. An order that
// cannot be opened is then a line of `fallbacks`. Errors: those of open_orders(), where nobody reads yet.
[[nodiscard]] io::Result<cache::OrderCandidates> mount_orders(const MountPlan& plan, KeptSettings& kept,
                                                              const cache::Catalog& catalog, int before_fd,
                                                              std::vector<std::string>& fallbacks);

}  // namespace headrace::cli
