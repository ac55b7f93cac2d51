// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/shared_forecast.h"

#include <algorithm>

#include "headrace/cache/shared/peer_address.h"
#include "headrace/cache/shared/peer_placement.h"

namespace headrace::cache {

SharedPart SharedForecast::held() const {
  SharedPart all;
  for (const SharedPart& peer : peers) {
    all.samples += peer.samples;
    all.bytes += peer.bytes;
  }
  return all;
}

std::uint64_t SharedForecast::fullest_bytes() const {
  std::uint64_t most = 0;
  for (const SharedPart& peer : peers) most = std::max(most, peer.bytes);
  return most;
}

Result<SharedForecast> forecast_shared(const Catalog& catalog, std::string_view data_set,
                                       std::span<const std::string> peers, std::uint64_t bytes_per_peer) {
  HEADRACE_TRY_DO(check_peer_count(peers.size()));
  std::vector<std::string> names;
  for (const std::string& peer : peers) {
    HEADRACE_TRY(name, full_peer_name(peer));
    names.push_back(std::move(name));
  }
  const std::vector<PeerIndex> owners = place_entries(catalog, data_set, names, bytes_per_peer);
  SharedForecast forecast;
  forecast.peers.resize(names.size());
  for (SampleIndex sample = 0; sample < catalog.sample_count(); ++sample) {
    const EntryId entry = catalog.sample_entry(sample);
    SharedPart& part = owners[entry] == kNoPeer ? forecast.source : forecast.peers[owners[entry]];
    part.samples += 1;
    part.bytes += catalog.size_bytes(entry);
  }
  return forecast;
}

}  // namespace headrace::cache
