// SPDX-License-Identifier: Apache-2.0
// Finds the seed of one epoch in the stream of torch's default generator, so that the seeds of later epochs follow.
//
//   find_links(seed_of_epoch_3, outputs, cancelled, [&](const StreamLink& link) { ... link.seed, link.output });
//
// RandomSampler without a generator shuffles each epoch with a fresh generator, seeded with the second word of a 64-bit
// draw from the default generator. Everything else that draws on the CPU (model initialisation above all) only takes
// outputs of the stream; between epochs that is a few, the same number each time. Thread-safety: pure.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace headrace::cache {

struct StreamLink {
  std::uint64_t seed = 0;    // manual_seed(seed)
  std::uint64_t output = 0;  // the epoch's seed is this output of the stream
  friend bool operator==(const StreamLink&, const StreamLink&) = default;
};

// Of the usual seeds' outputs so many are the epoch's seed by chance alone: 0.67 a call with 80 million each. So a
// link is a guess until it has told the seed of a later epoch.
[[nodiscard]] double links_by_chance(std::uint64_t outputs);
// Chance gives that many once in 10^16 calls; each costs kMostStride candidates an epoch.
inline constexpr std::size_t kMostLinks = 16;

// Looks through the first `outputs` outputs of each of the usual seeds and hands over every place where the epoch's
// seed is, as it is found, until there are kMostLinks of them or `cancelled`.
void find_links(std::uint32_t epoch_seed, std::uint64_t outputs, const std::atomic<bool>& cancelled,
                const std::function<void(const StreamLink&)>& found);

// The order whose epoch 0 has the linked seed, and whose later ones have seeds `stride` outputs further on each.
[[nodiscard]] std::string linked_spec(const StreamLink& link, std::uint64_t stride);
// The seeds that epochs after the linked one may have, nearest first: as many outputs of the stream.
[[nodiscard]] std::vector<std::uint32_t> seeds_after(const StreamLink& link, std::uint64_t count);
// Outputs per epoch to try: base_seed and seed of the training loader are 4; each further loader, random augmentation
// in the main process and the like add to it.
inline constexpr std::uint64_t kMostStride = 64;

}  // namespace headrace::cache
