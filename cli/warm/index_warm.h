// SPDX-License-Identifier: Apache-2.0
// Makes the indexes of JPEGs ahead of a training (decode/index_maker.h), for the samples that a warm wants.
//
//   HEADRACE_TRY(state, make_indexes(*store, wanted.entries, stop));
//   print(summarise(state, seconds));
//
// Thread-safety: any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "headrace/cache/store.h"
#include "headrace/cli/setup/stop_signal.h"
#include "headrace/cli/show/progress.h"
#include "headrace/decode/crop_indexes.h"

namespace headrace::cli {

struct IndexState {
  Amount done;
  Amount total;
  std::array<std::uint64_t, decode::kCropWays> ways = {};  // of what is done, by decode::CropWay
  std::uint64_t failed = 0;
  std::string first_failure;
  bool stopped = false;  // by a signal
  [[nodiscard]] std::uint64_t count(decode::CropWay way) const { return ways[static_cast<std::size_t>(way)]; }
};

// Reads the samples from the fastest tier that has them, and keeps what it makes where libheadrace and the Python
// package look for it. Shows its progress. A signal ends it. Errors: those of the folder and of the library.
[[nodiscard]] io::Result<IndexState> make_indexes(cache::Store& store, const std::vector<cache::EntryId>& entries,
                                                  StopSignal& stop);

// {"indexed", "made", "unsuited", "damaged", "no_room", "wanted_samples", "failed", "seconds"}
[[nodiscard]] nlohmann::json to_json(const IndexState& state, double seconds);
// "indexes of 4000 JPEGs in 0:12, 1000 of them there already; 12 cannot have one (progressive, or no JPEG)"
[[nodiscard]] std::string summarise(const IndexState& state, double seconds);
[[nodiscard]] io::Status check_outcome(const IndexState& state);

}  // namespace headrace::cli
