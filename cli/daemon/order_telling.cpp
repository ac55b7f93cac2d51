// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/daemon/order_telling.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "headrace/cli/show/json.h"

namespace headrace::cli {
namespace {

using io::ErrorCode;
using io::make_error;
using nlohmann::json;

// An epoch may read samples again, four times each on average; the bound is what keeps the daemon's memory in bounds.
constexpr std::uint64_t kReadsPerSampleMax = 4;
constexpr std::uint64_t kEpochLengthAlways = 1 << 20;  // whatever the data set: 4 MiB
constexpr std::size_t kNameBytesMax = 64;
// Larger layouts are no training's, and their product must not overflow.
constexpr std::uint64_t kBatchMax = 1 << 20;
constexpr std::uint64_t kWorkersMax = 1 << 10;
constexpr std::uint64_t kPrefetchFactorMax = 1 << 10;

tl::unexpected<io::Error> refusal(std::string text) {
  return make_error(ErrorCode::kInvalidArgument, std::move(text));
}

}  // namespace

io::Result<std::optional<OrderTelling::Told>> OrderTelling::take(const json& arguments) {
  const std::uint64_t offset = number_of(arguments, "offset");
  if (offset == 0) {
    if (io::Status begun = begin(arguments); !begun) return io::forward_error(std::move(begun));
  }
  if (total_ == 0 || offset != samples_.size() || text_of(arguments, "name") != teller_.name) {
    return refusal(
        fmt::format("a part of an order came out of turn, at {} instead of {}; did somebody else tell one? "
                    "Begin the epoch again",
                    offset, samples_.size()));
  }
  if (io::Status added = add(member_of(arguments, "numbers")); !added) {
    total_ = 0;
    return io::forward_error(std::move(added));
  }
  if (samples_.size() < total_) return std::optional<Told>();
  return std::optional<Told>(finish());
}

io::Result<OrderTelling::Teller> OrderTelling::read_teller(const json& arguments) const {
  Teller teller{.name = text_of(arguments, "name"), .layout = {}};
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (teller.name.empty() || teller.name.size() > kNameBytesMax ||
      std::any_of(teller.name.begin(), teller.name.end(), is_control)) {
    return refusal(fmt::format("the name of who tells an order has 1 to {} printable characters", kNameBytesMax));
  }
  const std::uint64_t batch = number_of(arguments, "batch");
  const std::uint64_t workers = number_of(arguments, "workers");
  const std::uint64_t prefetch_factor = number_of(arguments, "prefetch_factor");
  if (batch == 0 || batch > kBatchMax || workers > kWorkersMax || prefetch_factor > kPrefetchFactorMax) {
    return refusal(
        fmt::format("batches of {}, {} workers and {} batches ahead are no loader's", batch, workers, prefetch_factor));
  }
  teller.layout = {.batch = static_cast<std::uint32_t>(batch),
                   .workers = static_cast<std::uint32_t>(workers),
                   .prefetch_factor = static_cast<std::uint32_t>(std::max<std::uint64_t>(prefetch_factor, 1))};
  return teller;
}

io::Status OrderTelling::begin(const json& arguments) {
  total_ = 0;
  samples_.clear();
  HEADRACE_TRY(teller, read_teller(arguments));
  const std::uint64_t total = number_of(arguments, "total");
  const std::uint64_t longest = std::max(kEpochLengthAlways, kReadsPerSampleMax * sample_count_);
  if (total == 0 || total > longest) {
    return refusal(fmt::format("an epoch of {} reads cannot be told: 1 to {} of a data set of {} samples", total,
                               longest, sample_count_));
  }
  teller_ = std::move(teller);
  total_ = total;
  samples_.reserve(total);
  return {};
}

io::Status OrderTelling::add(const json& numbers) {
  if (!numbers.is_array() || numbers.empty() || numbers.size() > total_ - samples_.size()) {
    return refusal("a part of an order needs a list of numbers, no longer than the epoch");
  }
  for (const json& number : numbers) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= sample_count_) {
      return refusal(fmt::format("{} is no sample: the data set has {}",
                                 number.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 32),
                                 sample_count_));
    }
    samples_.push_back(number.get<cache::SampleIndex>());
  }
  return {};
}

// The same teller goes on with its order, so that what is held of it stays.
OrderTelling::Told OrderTelling::finish() {
  const cache::WorkerLayout layout = order_ ? order_->workers() : cache::WorkerLayout{};
  const bool goes_on = order_ && order_name_ == teller_.name && layout.batch == teller_.layout.batch &&
                       layout.workers == teller_.layout.workers &&
                       layout.prefetch_factor == teller_.layout.prefetch_factor;
  if (!goes_on) order_ = std::make_shared<cache::ToldOrder>(teller_.name, teller_.layout);
  order_name_ = teller_.name;
  total_ = 0;
  const std::uint64_t epoch = order_->add_epoch(std::exchange(samples_, {}));
  return {.order = order_, .epoch = epoch};
}

}  // namespace headrace::cli
