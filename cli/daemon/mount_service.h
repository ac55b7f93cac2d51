// SPDX-License-Identifier: Apache-2.0
// What the daemon of a mount answers on its control socket.
//
//   version                                        {"version", "protocol", "pid", "supervisor_pid", "program"}
//   stat                                           see JSON.md
//   warm {"ram", "disk", "mine", "order", "epoch", "epochs", "rate_bytes_per_second"}   starts; one at a time
//   warm-forecast                                  as warm, but fetches nothing: {"ram", "disk"}, see warm_plan.h
//   warm-state                                     see background_warm.h
//   warm-stop
//   refresh                                        starts to compare the catalog with the source
//   refresh-state                                  {"running", "rounds", "changed", "vanished", "appeared", "failure",
//                                                  "why_not_shown", "renewals", "renewed"}
//   set {"ram_bytes", "source_rate", "specs", "peers"}  changes what is named: all of it or, with an error, nothing
//   pin {"list"}                                   the samples that this file names are held from now on: all or none
//   pinned {"first"}                               {"paths", "next"}: of as many as fit a reply; no next: that is all
//   evict {"list"}                                 gives up what is held of these samples, and pins them no more
//   handover                                       what another program needs to go on (handover.h)
//   neighbour                                      what another mount of this machine wants to know (neighbours.h)
//   upgrade {"program"}                            has that program go on
//   order {"spec", "epoch"}                        sets the order; without spec: tells it
//   order-tell {"name", "total", "offset", "numbers", "batch", "workers", "prefetch_factor"}
//                                                  a part of a loader's next epoch; the last part has it followed
//   opens {"first"}                                {"next", "paths"}: the last ones, as many as fit a reply
//   numbering {"first"}                            {"total", "paths"}: of as many samples as fit a reply
//
// Thread-safety: answer() from the control server's thread only, stat() from any thread.
// Ownership: what the constructor is given outlives it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <sys/types.h>

#include "headrace/cache/refresher.h"
#include "headrace/cache/store.h"
#include "headrace/cli/daemon/background_warm.h"
#include "headrace/cli/daemon/handover.h"
#include "headrace/cli/daemon/kept_settings.h"
#include "headrace/cli/daemon/order_telling.h"
#include "headrace/cli/daemon/peer_watch.h"
#include "headrace/cli/warm/warm_plan.h"
#include "headrace/fuse/mount.h"

namespace headrace::cli {

class MountService {
 public:
  // `share`: what this node gives to others (JSON.md); null: nothing. `peers`: null likewise.
  // `refresh`: how the source is compared; who is to hear of other names is set here.
  MountService(cache::Store& store, fuse::Mount& mount, cache::RefresherOptions refresh, KeptSettings& kept,
               Handover handover, nlohmann::json share, PeerWatch* peers);
  [[nodiscard]] std::string answer(std::string_view request);
  [[nodiscard]] nlohmann::json stat() const;

 private:
  [[nodiscard]] io::Result<nlohmann::json> handle(const std::string& command, const nlohmann::json& arguments);
  [[nodiscard]] nlohmann::json refresh_state() const;
  [[nodiscard]] io::Status show_other_names(const cache::CatalogChanges& changes);
  [[nodiscard]] io::Result<nlohmann::json> warm(const nlohmann::json& arguments);
  [[nodiscard]] io::Result<nlohmann::json> warm_state() const;
  [[nodiscard]] io::Result<std::vector<cache::EntryId>> own_part(const Wanted& wanted) const;
  [[nodiscard]] io::Result<nlohmann::json> warm_forecast(const nlohmann::json& arguments) const;
  [[nodiscard]] io::Result<nlohmann::json> set(const nlohmann::json& arguments);
  [[nodiscard]] io::Status set_peers(const std::vector<std::string>& words);
  [[nodiscard]] io::Status check_ram(std::uint64_t ram) const;
  void set_ram(std::uint64_t ram);
  [[nodiscard]] io::Result<nlohmann::json> pin(const nlohmann::json& arguments);
  [[nodiscard]] nlohmann::json pinned(const nlohmann::json& arguments) const;
  [[nodiscard]] io::Result<nlohmann::json> evict(const nlohmann::json& arguments);
  [[nodiscard]] io::Result<std::vector<cache::SampleIndex>> listed(const nlohmann::json& arguments) const;
  [[nodiscard]] nlohmann::json neighbour() const;
  [[nodiscard]] io::Result<nlohmann::json> upgrade(const nlohmann::json& arguments);
  [[nodiscard]] io::Result<nlohmann::json> order(const nlohmann::json& arguments);
  [[nodiscard]] io::Status check_takes_orders() const;
  [[nodiscard]] io::Result<nlohmann::json> tell_order(const nlohmann::json& arguments);
  [[nodiscard]] nlohmann::json opens(const nlohmann::json& arguments) const;
  [[nodiscard]] nlohmann::json numbering(const nlohmann::json& arguments) const;

  cache::Store& store_;
  fuse::Mount& mount_;
  KeptSettings& kept_;
  const std::uint64_t sample_chunks_;
  const Handover handover_;
  const pid_t supervisor_;
  const nlohmann::json share_;
  PeerWatch* const peers_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  OrderTelling telling_;
  std::atomic<bool> is_warming_ = false;
  std::unique_ptr<BackgroundWarm> job_;  // the last one; it stays, so that warm-state can tell how it ended
  cache::Refresher refresher_;           // last: its thread uses all of the above
};

}  // namespace headrace::cli
