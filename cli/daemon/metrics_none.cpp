// SPDX-License-Identifier: Apache-2.0
// Takes the place of metrics_prometheus.cpp where prometheus-cpp was not found.
#include "headrace/cli/daemon/metrics.h"

namespace headrace::cli {

io::Status check_metrics_address(const std::string& address) {
  if (address.empty()) return {};
  return io::make_error(io::ErrorCode::kUnsupported,
                        "--metrics: this headrace was built without prometheus-cpp; build it with prometheus-cpp-dev");
}

io::Result<std::unique_ptr<MetricsServer>> start_metrics(const std::string& address, const MountService&) {
  return check_metrics_address(address).map([] { return std::unique_ptr<MetricsServer>(); });
}

}  // namespace headrace::cli
