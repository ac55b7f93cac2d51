// SPDX-License-Identifier: Apache-2.0
// Serves the figures of a mount as a Prometheus page, http://ADDRESS:PORT/metrics; /healthz answers 200 while the
// daemon serves. README.md lists the names.
//
//   auto server = start_metrics("9750", service);   // 127.0.0.1 unless an address is given
//
// A build without prometheus-cpp refuses a request for metrics with kUnsupported.
// Thread-safety: the server answers on threads of its own. Ownership: the service outlives the server.
#pragma once

#include <memory>
#include <string>

#include "headrace/cli/daemon/mount_service.h"

namespace headrace::cli {

class MetricsServer {
 public:
  virtual ~MetricsServer() = default;
};

// Errors: kInvalidArgument for anything but "", "PORT" and "ADDRESS:PORT"; kUnsupported.
[[nodiscard]] io::Status check_metrics_address(const std::string& address);
// Returns an empty pointer for an empty address. Errors: as check_metrics_address(), kBusy (the port is taken).
[[nodiscard]] io::Result<std::unique_ptr<MetricsServer>> start_metrics(const std::string& address,
                                                                       const MountService& service);

}  // namespace headrace::cli
