// SPDX-License-Identifier: Apache-2.0
// What the peers of a shared tier will hold of a data set, and what stays with the source.
//
//   const SharedForecast forecast = forecast_shared(catalog, "/data/train", {"n1", "n2"}, 64ULL << 30);
//   print(forecast.source.samples);      // reads of the source in each epoch after the first
//
// It is what a mount computes, so it holds to the sample where the names of data set and peers are the same.
// Thread-safety: a pure function.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/cache/catalog.h"

namespace headrace::cache {

struct SharedPart {
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;
};

struct SharedForecast {
  std::vector<SharedPart> peers;  // as they were named
  SharedPart source;              // what no peer has room for

  [[nodiscard]] SharedPart held() const;  // by all peers
  [[nodiscard]] std::uint64_t fullest_bytes() const;
};

// `data_set`: the source's canonical path, or its URL. Errors: kInvalidArgument (too many peers, no name).
[[nodiscard]] Result<SharedForecast> forecast_shared(const Catalog& catalog, std::string_view data_set,
                                                     std::span<const std::string> peers, std::uint64_t bytes_per_peer);

// The files that one of them is to hold, `peer`, in the order of the catalog. Errors: as above, and kNotFound.
[[nodiscard]] Result<std::vector<EntryId>> entries_of_peer(const Catalog& catalog, std::string_view data_set,
                                                           std::span<const std::string> peers,
                                                           std::uint64_t bytes_per_peer, std::string_view peer);

}  // namespace headrace::cache
