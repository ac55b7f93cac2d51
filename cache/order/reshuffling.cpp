// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/order/reshuffling.h"

#include <algorithm>
#include <string>
#include <utility>

namespace headrace::cache {

EpochSeed read_epoch_seed(Parameters& parameters) {
  return static_cast<EpochSeed>(parameters.choice("epochs", {"stream", "seed+epoch", "same"}));
}

Status check_reshuffles(std::uint64_t epoch, std::uint64_t n) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 33;  // elements shuffled: about a minute
  if (n == 0 || epoch < kMost / n) return {};
  return io::make_error(io::ErrorCode::kInvalidArgument,
                        "epoch " + std::to_string(epoch) + " follows from too many epochs before it");
}

OrderResult whole_list_order(Parameters& parameters, std::uint64_t length,
                             std::function<Result<Samples>(std::uint64_t epoch)> list_of) {
  const WorkerLayout workers = read_worker_layout(parameters);
  HEADRACE_TRY_DO(parameters.finish());
  const auto draw = [list_of = std::move(list_of)](std::uint64_t epoch, std::uint64_t count) {
    Result<Samples> list = list_of(epoch);
    if (list) list->resize(std::min<std::uint64_t>(count, list->size()));
    return list;
  };
  return make_sharded_order(parameters.spec(),
                            {.list_length = length, .draw = draw, .shards = {.total = length}, .workers = workers});
}

}  // namespace headrace::cache
