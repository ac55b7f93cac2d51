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

namespace {

Result<std::vector<std::string>> full_names(std::span<const std::string> peers) {
  HEADRACE_TRY_DO(check_peer_count(peers.size()));
  std::vector<std::string> names;
  for (const std::string& peer : peers) {
    HEADRACE_TRY(name, full_peer_name(peer));
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

Result<SharedForecast> forecast_shared(const Catalog& catalog, std::string_view data_set,
                                       std::span<const std::string> peers, std::uint64_t bytes_per_peer) {
  HEADRACE_TRY(names, full_names(peers));
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

Result<std::vector<EntryId>> entries_of_peer(const Catalog& catalog, std::string_view data_set,
                                             std::span<const std::string> peers, std::uint64_t bytes_per_peer,
                                             std::string_view peer) {
  HEADRACE_TRY(names, full_names(peers));
  const auto found = std::find(names.begin(), names.end(), peer);
  if (found == names.end()) {
    return io::make_error(io::ErrorCode::kNotFound, "peer '" + std::string(peer) + "' is none of the peers");
  }
  const std::vector<PeerIndex> owners = place_entries(catalog, data_set, names, bytes_per_peer);
  std::vector<EntryId> entries;
  for (EntryId entry = 0; entry < owners.size(); ++entry) {
    if (owners[entry] == found - names.begin()) entries.push_back(entry);
  }
  return entries;
}

}  // namespace headrace::cache
