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
constexpr std::uint64_t kRanksMax = 64;  // on one node, which has 16 GPUs at most
constexpr std::size_t kLoadersMax = 4;   // told by turns: of training and validation, say

tl::unexpected<io::Error> refusal(std::string text) {
  return make_error(ErrorCode::kInvalidArgument, std::move(text));
}

}  // namespace

io::Result<std::optional<OrderTelling::Told>> OrderTelling::take(const json& arguments) {
  HEADRACE_TRY(teller, read_teller(arguments));
  Loader& loader = loader_of(teller);
  HEADRACE_TRY(share, number_of(arguments, "offset") == 0 ? begin(loader, arguments) : go_on(loader, arguments));
  if (io::Status added = add(*share, member_of(arguments, "numbers")); !added) {
    *share = {};
    return io::forward_error(std::move(added));
  }
  if (!std::ranges::all_of(loader.shares, &Share::is_whole)) return std::optional<Told>();
  return std::optional<Told>(finish(loader));
}

io::Result<OrderTelling::Teller> OrderTelling::read_teller(const json& arguments) {
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
  // Who says nothing of ranks is the only one.
  const std::uint64_t ranks = std::max<std::uint64_t>(number_of(arguments, "ranks"), 1);
  if (const std::uint64_t rank = number_of(arguments, "rank"); ranks > kRanksMax || rank >= ranks) {
    return refusal(
        fmt::format("rank {} of {} cannot tell: a node has 1 to {} ranks, counted from 0", rank, ranks, kRanksMax));
  }
  teller.layout = {.batch = static_cast<std::uint32_t>(batch),
                   .workers = static_cast<std::uint32_t>(workers),
                   .prefetch_factor = static_cast<std::uint32_t>(std::max<std::uint64_t>(prefetch_factor, 1)),
                   .ranks = static_cast<std::uint32_t>(ranks)};
  return teller;
}

bool OrderTelling::Teller::is(const Teller& other) const {
  return name == other.name && layout.batch == other.layout.batch && layout.workers == other.layout.workers &&
         layout.prefetch_factor == other.layout.prefetch_factor && layout.ranks == other.layout.ranks;
}

// A loader that tells otherwise than before is another one.
OrderTelling::Loader& OrderTelling::loader_of(const Teller& teller) {
  const auto known = std::ranges::find(loaders_, teller.name, [](const Loader& loader) { return loader.teller.name; });
  Loader loader{.teller = teller, .shares = std::vector<Share>(teller.layout.ranks)};
  if (known != loaders_.end()) {
    if (known->teller.is(teller)) loader = std::move(*known);
    loaders_.erase(known);
  }
  if (loaders_.size() == kLoadersMax) loaders_.pop_front();
  return loaders_.emplace_back(std::move(loader));
}

io::Result<OrderTelling::Share*> OrderTelling::begin(Loader& loader, const json& arguments) const {
  Share& share = loader.shares[number_of(arguments, "rank")];
  share = {};
  const std::uint64_t total = number_of(arguments, "total");
  const std::uint64_t longest = std::max(kEpochLengthAlways, kReadsPerSampleMax * sample_count_) / loader.shares.size();
  if (total == 0 || total > longest) {
    return refusal(fmt::format("an epoch of {} reads cannot be told: 1 to {} of a data set of {} samples", total,
                               longest, sample_count_));
  }
  share.total = total;
  share.samples.reserve(total);
  return &share;
}

io::Result<OrderTelling::Share*> OrderTelling::go_on(Loader& loader, const json& arguments) {
  Share& share = loader.shares[number_of(arguments, "rank")];
  if (share.total > 0 && number_of(arguments, "offset") == share.samples.size()) return &share;
  return refusal(
      fmt::format("a part of an order came out of turn, at {} instead of {}; did somebody else tell one? "
                  "Begin the epoch again",
                  number_of(arguments, "offset"), share.samples.size()));
}

io::Status OrderTelling::add(Share& share, const json& numbers) const {
  if (!numbers.is_array() || numbers.empty() || numbers.size() > share.total - share.samples.size()) {
    return refusal("a part of an order needs a list of numbers, no longer than the epoch");
  }
  for (const json& number : numbers) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= sample_count_) {
      return refusal(fmt::format("{} is no sample: the data set has {}",
                                 number.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 32),
                                 sample_count_));
    }
    share.samples.push_back(number.get<cache::SampleIndex>());
  }
  return {};
}

// The same teller goes on with its order, so that what is held of it stays. The ranks read by turns; where one has
// fewer samples, the others go on.
OrderTelling::Told OrderTelling::finish(Loader& loader) {
  if (!order_ || !order_teller_.is(loader.teller)) {
    cache::WorkerLayout layout = loader.teller.layout;
    layout.batch *= layout.ranks;
    order_ = std::make_shared<cache::ToldOrder>(loader.teller.name, layout);
    order_teller_ = loader.teller;
  }
  std::vector<Share> shares(loader.shares.size());
  shares.swap(loader.shares);
  if (shares.size() == 1) return {.order = order_, .epoch = order_->add_epoch(std::move(shares[0].samples))};
  std::vector<cache::SampleIndex> samples;
  const std::size_t rounds = std::ranges::max(shares, {}, &Share::total).samples.size();
  for (std::size_t round = 0; round < rounds; ++round) {
    for (const Share& share : shares) {
      if (round < share.samples.size()) samples.push_back(share.samples[round]);
    }
  }
  return {.order = order_, .epoch = order_->add_epoch(std::move(samples))};
}

}  // namespace headrace::cli
