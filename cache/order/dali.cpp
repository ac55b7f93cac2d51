// SPDX-License-Identifier: Apache-2.0
// dali: NVIDIA DALI's fn.readers.file (dali/operators/reader/loader/file_label_loader.h, loader.h).
//
// random_shuffle shuffles the file list once, with the constant 524287: no user seed reaches the order in which the
// disk is read. shuffle_after_epoch shuffles it again for each pass, seeded 524287 + pass, on the order left by the
// pass before, or on the listed order where checkpointing is on. Which std::shuffle a wheel has depends on the
// libstdc++ that built it: <= 10 up to about DALI 1.41, >= 11 after.
#include "headrace/cache/order/families.h"
#include "headrace/cache/order/reshuffling.h"

namespace headrace::cache {
namespace {

enum class DaliMode : std::uint8_t { kRandomShuffle, kShuffleAfterEpoch, kListed };

struct DaliParts {
  std::uint64_t n = 0;
  DaliMode mode = DaliMode::kRandomShuffle;
  LibstdcxxRule rule = LibstdcxxRule::kFrom11;
  std::uint32_t seed = 524'287;
  bool checkpointing = false;
  bool stick_to_shard = false;  // else a rank goes on with the next shard in its next epoch
  Shards shards;
  WorkerLayout workers;
};

class DaliOrder final : public Order {
 public:
  DaliOrder(std::string spec, DaliParts parts) : spec_(std::move(spec)), parts_(parts) {}

  [[nodiscard]] const std::string& spec() const override { return spec_; }
  [[nodiscard]] std::uint64_t length(std::uint64_t epoch) const override {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < parts_.shards.rank_count; ++i) {
      const std::uint64_t rank = parts_.shards.first_rank + i;
      sum += shard_end(epoch, rank) - shard_begin(epoch, rank);
    }
    return sum;
  }
  [[nodiscard]] Result<Samples> epoch(std::uint64_t epoch) const override;
  [[nodiscard]] WorkerLayout workers() const override { return layout_of(parts_.workers, parts_.shards); }

 private:
  [[nodiscard]] std::uint64_t shard_of(std::uint64_t epoch, std::uint64_t rank) const {
    return parts_.stick_to_shard ? rank : (rank + epoch % parts_.shards.replicas) % parts_.shards.replicas;
  }
  [[nodiscard]] std::uint64_t shard_begin(std::uint64_t epoch, std::uint64_t rank) const {
    return parts_.n * shard_of(epoch, rank) / parts_.shards.replicas;
  }
  [[nodiscard]] std::uint64_t shard_end(std::uint64_t epoch, std::uint64_t rank) const {
    return parts_.n * (shard_of(epoch, rank) + 1) / parts_.shards.replicas;
  }
  [[nodiscard]] Result<Samples> list_of(std::uint64_t epoch) const;
  [[nodiscard]] Samples side_by_side(std::uint64_t epoch, const Samples& list) const;

  const std::string spec_;
  const DaliParts parts_;
};

Result<Samples> DaliOrder::list_of(std::uint64_t epoch) const {
  Samples list = first_indices(parts_.n);
  if (parts_.mode == DaliMode::kListed) return list;
  if (parts_.mode == DaliMode::kRandomShuffle) {
    Mt19937 engine(parts_.seed);
    std_shuffle(engine, list, parts_.rule);
    return list;
  }
  HEADRACE_TRY_DO(check_reshuffles(parts_.checkpointing ? 0 : epoch, parts_.n));
  for (std::uint64_t pass = parts_.checkpointing ? std::max<std::uint64_t>(epoch, 1) : 1; pass <= epoch; ++pass) {
    Mt19937 engine(static_cast<std::uint32_t>(parts_.seed + pass));
    std_shuffle(engine, list, parts_.rule);
  }
  return list;
}

// The ranks advance together: the first sample of each shard, then the second ones, ...
Samples DaliOrder::side_by_side(std::uint64_t epoch, const Samples& list) const {
  Samples dealt;
  const std::uint64_t count = length(epoch);
  dealt.reserve(count);
  for (std::uint64_t step = 0; dealt.size() < count; ++step) {
    for (std::uint64_t i = 0; i < parts_.shards.rank_count; ++i) {
      const std::uint64_t rank = parts_.shards.first_rank + i;
      const std::uint64_t position = shard_begin(epoch, rank) + step;
      if (position < shard_end(epoch, rank)) dealt.push_back(list[position]);
    }
  }
  return dealt;
}

Result<Samples> DaliOrder::epoch(std::uint64_t epoch) const {
  Result<Samples> list = list_of(epoch);
  return list && parts_.shards.replicas > 1 ? side_by_side(epoch, *list) : list;
}

}  // namespace

OrderResult make_dali(Parameters& parameters, const OrderInput& input) {
  if (input.sample_count > UINT32_MAX) parameters.fail("at most 2^32 - 1 samples");
  DaliParts parts{.n = input.sample_count, .shards = {}, .workers = {}};
  parts.mode = static_cast<DaliMode>(parameters.choice("mode", {"random_shuffle", "shuffle_after_epoch", "listed"}));
  parts.rule = static_cast<LibstdcxxRule>(parameters.choice("libstdcxx", {"11", "10"}));
  parts.seed = parameters.seed("seed", 524'287).low32();
  parts.checkpointing = parameters.flag("checkpointing", false);
  parts.stick_to_shard = parameters.flag("stick_to_shard", parts.mode == DaliMode::kShuffleAfterEpoch);
  parts.shards = read_shards(parameters);
  parts.workers = read_worker_layout(parameters);
  HEADRACE_TRY_DO(parameters.finish());
  return std::make_unique<DaliOrder>(parameters.spec(), parts);
}

}  // namespace headrace::cache
