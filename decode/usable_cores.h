// SPDX-License-Identifier: Apache-2.0
// How many threads of work this process may run at once: its CPU affinity and the CPU quota of its cgroups.
//
//   unsigned threads = usable_cores();   // 2 in a container limited to 2.5 CPUs on a 64-core machine
#pragma once

#include <optional>
#include <vector>

#include "headrace/io/control_group.h"

namespace headrace::decode {

// At least 1.
[[nodiscard]] unsigned usable_cores();
// The CPUs that the process may run on, in ascending order.
[[nodiscard]] std::vector<int> allowed_cpus();
// CPUs' worth of time that the cgroups of the calling process grant, versions 1 and 2; the tightest of the whole path.
// nullopt: no quota.
[[nodiscard]] std::optional<double> cgroup_cpu_quota(const io::ControlGroupPaths& paths = {});

}  // namespace headrace::decode
