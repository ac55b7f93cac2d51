// SPDX-License-Identifier: Apache-2.0
// Which orders to try, and in what sequence.
//
//   for (const CandidateGroup& group : small_candidates()) ...   // most plausible first
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/cache/order/mapped_order.h"

namespace headrace::cache {

struct CandidateGroup {
  std::string spec;
  std::uint64_t first_epoch = 0;
  std::uint64_t epochs = 1;
  bool again = false;  // the order of the epoch before, once more
  Indices base = {};   // what the spec is over; null: all samples
};

// The order that a spec is, over the base or all of `n` samples, told in these. Errors: as make_order.
[[nodiscard]] Result<std::unique_ptr<Order>> make_candidate(const std::string& spec, const Indices& base,
                                                            std::uint64_t n);

// What a lock's successors may be, most plausible first: the next epoch, the same again, other rules that agree on the
// epoch seen but not on the next. All are checked at any position, so that going on in the middle is found as well.
[[nodiscard]] std::vector<CandidateGroup> successors_of(std::string_view spec, std::uint64_t epoch);

// Seeds that scripts use, with families that have a short form (microseconds each).
[[nodiscard]] std::vector<CandidateGroup> small_candidates();
// Families that shuffle the whole list for each candidate (milliseconds each at a million samples).
[[nodiscard]] std::vector<CandidateGroup> whole_list_candidates();
// Small seeds again, for an epoch that was entered in its middle.
[[nodiscard]] std::vector<CandidateGroup> resumed_candidates();

// Seeds of the default generator that linking tries (learn/link.h).
[[nodiscard]] const std::vector<std::uint64_t>& usual_seeds();

// A permutation of a fresh generator, as DistributedSampler, Hugging Face, Lightning, mmengine and RandomSampler have
// it.
[[nodiscard]] std::string fresh_seed_spec(std::uint32_t seed);
// The seed of such a spec; nullopt for other ones.
[[nodiscard]] std::optional<std::uint32_t> fresh_seed_of(std::string_view spec);
// The same spec and epoch, or seeds and epochs of fresh generators with the same sum.
[[nodiscard]] bool is_same_permutation(std::string_view spec, std::uint64_t epoch, std::string_view other_spec,
                                       std::uint64_t other_epoch);

}  // namespace headrace::cache
