// SPDX-License-Identifier: Apache-2.0
// Takes the place of metrics_prometheus.cpp where prometheus-cpp was not found.
#include <fmt/core.h>

#include "headrace/cli/daemon/metrics.h"

namespace headrace::cli {

io::Status check_metrics_address(std::string_view option, const std::string& address) {
  if (address.empty()) return {};
  return io::make_error(
      io::ErrorCode::kUnsupported,
      fmt::format("{}: this headrace was built without prometheus-cpp; build it with prometheus-cpp-dev", option));
}

io::Result<std::unique_ptr<MetricsServer>> start_metrics(std::string_view option, const std::string& address,
                                                         MetricsPage, const LookAtMounts&) {
  return check_metrics_address(option, address).map([] { return std::unique_ptr<MetricsServer>(); });
}

}  // namespace headrace::cli
