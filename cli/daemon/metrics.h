// SPDX-License-Identifier: Apache-2.0
// Serves the figures of mounts as a Prometheus page, http://ADDRESS:PORT/metrics; /healthz answers 200 while it does.
// README.md lists the names.
//
//   auto server = start_metrics("--metrics", "9750", look);   // 127.0.0.1 unless an address is given
//
// A build without prometheus-cpp refuses a request for metrics with kUnsupported.
// Thread-safety: the server answers on threads of its own, and calls `look` there, one call at a time.
// Ownership: what `look` uses outlives the server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "headrace/io/result.h"

namespace headrace::cli {

struct MountFigures {
  std::string mount_point;
  std::optional<nlohmann::json> stat = {};  // as MountService::stat(); nullopt: its daemon does not answer
};
// No two of one mount point.
using LookAtMounts = std::function<std::vector<MountFigures>()>;

class MetricsServer {
 public:
  virtual ~MetricsServer() = default;
  [[nodiscard]] virtual std::string url() const = 0;
};

// `option` is what an error names. Errors: kInvalidArgument for anything but "", "PORT" and "ADDRESS:PORT";
// kUnsupported.
[[nodiscard]] io::Status check_metrics_address(std::string_view option, const std::string& address);
// Whose page it is: that of one mount, whose daemon serves it; or that of a machine, served by a program of its own,
// which has a version of its own.
enum class MetricsPage : std::uint8_t { kMount, kMachine };
// Returns an empty pointer for an empty address. Errors: as check_metrics_address(), kBusy (the port is taken).
[[nodiscard]] io::Result<std::unique_ptr<MetricsServer>> start_metrics(std::string_view option,
                                                                       const std::string& address, MetricsPage page,
                                                                       const LookAtMounts& look);

}  // namespace headrace::cli
