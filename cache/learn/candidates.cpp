// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/learn/candidates.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace headrace::cache {
namespace {

constexpr std::string_view kFresh = "torch-distributed:seed=";

// The seed of a spec that has no other parameter after `prefix`.
[[nodiscard]] std::optional<std::uint64_t> seed_after(std::string_view spec, std::string_view prefix) {
  if (!spec.starts_with(prefix)) return std::nullopt;
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(spec.data() + prefix.size(), spec.data() + spec.size(), seed);
  if (error != std::errc{} || (end != spec.data() + spec.size() && *end != ',')) return std::nullopt;
  return seed;
}

// One permutation of a fresh generator fits many families: they part ways in the epoch after.
void add_fresh_alternatives(std::uint64_t seed, std::uint64_t epoch, std::vector<CandidateGroup>& groups) {
  const auto low = static_cast<std::uint32_t>(seed + epoch);
  groups.push_back({fmt::format("torch-distributed:seed={},set_epoch=0", low), 0, 1, true});
  groups.push_back({fmt::format("mmengine:sampler=infinite,seed={}", low), 1});
  groups.push_back({fmt::format("torch-random:generator=explicit,loader=0,seed={}", low), 1});
}

// What a generator shuffles next: the list as listed or as left, going on, reseeded or not.
void add_shuffle_alternatives(std::string_view family, std::uint64_t seed, std::vector<CandidateGroup>& groups) {
  for (const char* rule : {"epochs=same", "epochs=seed+epoch", "cumulative=1", "epochs=same,cumulative=1",
                           "epochs=seed+epoch,cumulative=1"}) {
    const bool again = rule == std::string_view("epochs=same");
    groups.push_back({fmt::format("{}seed={},{}", family, seed, rule), 1, 1, again});
  }
}

}  // namespace

Result<std::unique_ptr<Order>> make_candidate(const std::string& spec, const Indices& base, std::uint64_t n) {
  auto order = make_order(spec, {.sample_count = base ? base->size() : n, .find_sample = nullptr});
  if (!order || !base) return order;
  return std::make_unique<MappedOrder>(spec, base, std::move(*order));
}

const std::vector<std::uint64_t>& usual_seeds() {
  static const std::vector<std::uint64_t> seeds = {
      0,  42,   1,    1234,  123,   3407, 2021, 2022, 2023, 2024, 2025, 2020, 1337, 2,   3,   7,   10,    100,
      12, 1000, 2019, 12345, 31337, 777,  666,  4321, 2048, 1024, 1111, 8888, 9176, 233, 888, 999, 54321, 98765};
  return seeds;
}

std::string fresh_seed_spec(std::uint32_t seed) {
  return fmt::format("{}{}", kFresh, seed);
}

std::optional<std::uint32_t> fresh_seed_of(std::string_view spec) {
  const auto seed = seed_after(spec, kFresh);
  return seed ? std::optional(static_cast<std::uint32_t>(*seed)) : std::nullopt;
}

bool is_same_permutation(std::string_view spec, std::uint64_t epoch, std::string_view other_spec,
                         std::uint64_t other_epoch) {
  if (spec == other_spec) return epoch == other_epoch;
  const auto seed = seed_after(spec, kFresh);
  const auto other_seed = seed_after(other_spec, kFresh);
  const auto moves = [](std::string_view s) { return s.find("set_epoch=0") == std::string_view::npos ? 1U : 0U; };
  return seed && other_seed && *seed + moves(spec) * epoch == *other_seed + moves(other_spec) * other_epoch;
}

std::vector<CandidateGroup> successors_of(std::string_view spec, std::uint64_t epoch) {
  std::vector<CandidateGroup> groups;
  groups.push_back({std::string(spec), epoch + 1, 2});
  if (const auto fresh = seed_after(spec, kFresh)) add_fresh_alternatives(*fresh, epoch, groups);
  for (const std::string_view family : {"numpy:", "numpy:rng=generator,", "python:"}) {
    const auto seed = seed_after(spec, std::string(family) + "seed=");
    if (seed) add_shuffle_alternatives(family, *seed, groups);
  }
  if (const auto random = seed_after(spec, "torch-random:generator=explicit,seed=")) {
    // Where the tail permutation is not drawn: torch before 1.12, epochs that are broken off.
    groups.push_back({fmt::format("torch-random:generator=explicit,seed={},torch=1.11", *random), epoch + 1, 2});
    groups.push_back({fmt::format("torch-random:generator=explicit,seed={},persistent=1", *random), epoch + 1, 2});
  }
  if (seed_after(spec, "torch-random:seed=") && spec.find(',') == std::string_view::npos) {
    // Persistent workers draw no base seed after the first epoch, so that the later ones come sooner.
    groups.push_back({fmt::format("{},persistent=1", spec), epoch + 1, 2});
  }
  groups.push_back({std::string(spec), epoch, 1, true});
  groups.push_back({"sequential"});
  if (epoch != 0) groups.push_back({std::string(spec), 0});
  return groups;
}

std::vector<CandidateGroup> small_candidates() {
  std::vector<CandidateGroup> groups;
  groups.push_back({"sequential"});
  groups.push_back({fresh_seed_spec(0), 0, 1200});  // all (seed, epoch) whose sum is below that
  for (const std::uint64_t seed : usual_seeds()) {
    groups.push_back({fmt::format("torch-random:generator=explicit,seed={}", seed)});
    groups.push_back({fmt::format("torch-random:seed={}", seed), 0, 100});
    groups.push_back({fmt::format("torch-random:seed={},stride=6", seed), 1, 100});
    if (seed >= 1200) groups.push_back({fresh_seed_spec(static_cast<std::uint32_t>(seed)), 0, 300});
  }
  groups.push_back({"detectron2", 0, 3});
  return groups;
}

std::vector<CandidateGroup> whole_list_candidates() {
  std::vector<CandidateGroup> groups;
  for (const char* rule : {"11", "10"}) {
    groups.push_back({fmt::format("dali:libstdcxx={}", rule)});
    groups.push_back({fmt::format("dali:mode=shuffle_after_epoch,libstdcxx={}", rule), 1, 3});
    groups.push_back({fmt::format("dali:mode=shuffle_after_epoch,checkpointing=1,libstdcxx={}", rule), 2, 3});
  }
  groups.push_back({"dlio", 0, 3});
  for (const std::uint64_t seed : {0ULL, 42ULL, 1ULL, 123ULL, 1234ULL, 3407ULL}) {
    groups.push_back({fmt::format("numpy:seed={}", seed)});
    groups.push_back({fmt::format("ffcv:seed={}", seed), 0, 3});
    groups.push_back({fmt::format("python:seed={}", seed)});
  }
  return groups;
}

std::vector<CandidateGroup> resumed_candidates() {
  return {{fresh_seed_spec(0), 0, 200}, {fresh_seed_spec(1234), 0, 30}, {fresh_seed_spec(3407), 0, 30}};
}

}  // namespace headrace::cache
