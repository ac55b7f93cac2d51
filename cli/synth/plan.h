// SPDX-License-Identifier: Apache-2.0
// Decides how many bytes each file of a synthetic data set has, how large its picture is and how it is encoded. Pure.
//
// Shares and sizes are stratified, not drawn independently: any number of files has the same statistics but for
// rounding.
#pragma once

#include <cstdint>
#include <vector>

#include "headrace/cli/synth/splitmix.h"

namespace headrace::cli {

enum class Subsampling : std::uint8_t { k444, k420, k422 };

struct ImagePlan {
  std::uint32_t target_bytes = 0;  // the encoder gets within a few per cent
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  Subsampling subsampling = Subsampling::k444;
  bool grayscale = false;
  bool progressive = false;
  bool restart_markers = false;
};

[[nodiscard]] std::vector<ImagePlan> plan_images(std::uint32_t files, std::uint64_t seed);

}  // namespace headrace::cli
