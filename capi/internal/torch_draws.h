// SPDX-License-Identifier: Apache-2.0
// The crops and flips that a torch DataLoader draws with torchvision's RandomResizedCrop and RandomHorizontalFlip, so
// that a run with headrace sees the same parts of the same images.
//
// Each worker of the DataLoader seeds a Mersenne Twister with base seed + its number, and draws for the samples of
// every workers-th batch in turn. How much a sample draws depends on the size of its image, so the samples have to be
// looked at in order: one header each.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "headrace/decode/decode_options.h"
#include "headrace/decode/image_decoder.h"
#include "headrace/decode/transform.h"

namespace headrace::capi {

// torch's generator on a CPU: what its distributions make of the outputs of a Mersenne Twister (ATen's
// TransformationHelper.h and DistributionTemplates.h, 1.13 to 2.9).
class TorchRandom {
 public:
  // As torch.manual_seed(): the lower 32 bits count.
  explicit TorchRandom(std::uint64_t seed) : engine_(static_cast<std::uint32_t>(seed)) {}

  // torch.empty(1).uniform_(low, high): 24 random bits.
  [[nodiscard]] float uniform(float low, float high);
  // torch.randint(0, bound, (1,))
  [[nodiscard]] std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(engine_() % bound); }

 private:
  std::mt19937 engine_;
};

// torchvision's RandomResizedCrop.get_params().
[[nodiscard]] decode::Box draw_crop(const decode::RandomResizedCrop& crop, decode::Size image, TorchRandom& random);

struct TorchDrawOptions {
  std::uint64_t seed = 0;
  std::uint32_t workers = 0;  // 0: one generator, seeded with `seed`
  std::uint64_t batch_size = 1;
  decode::RandomResizedCrop crop = {};
  double flip_probability = 0;
  decode::DecodeOptions decode = {};
};

class TorchDraws {
 public:
  explicit TorchDraws(const TorchDrawOptions& options);

  // For the sample at this position; positions come in order. nullopt: no image, which decoding will find, too.
  [[nodiscard]] std::optional<decode::CropPlan> plan(std::uint64_t position, std::span<const std::byte> bytes);

 private:
  TorchDrawOptions options_;
  std::vector<TorchRandom> workers_;
  std::unique_ptr<decode::ImageDecoder> decoder_;
};

}  // namespace headrace::capi
