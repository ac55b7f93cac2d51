// SPDX-License-Identifier: Apache-2.0
// Turns pictures into JPEG and back, for the synthetic data set.
//
// Thread-safety: the functions are pure.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "headrace/cli/synth/canvas.h"
#include "headrace/cli/synth/plan.h"
#include "headrace/io/result.h"

namespace headrace::cli {

// The picture as JPEG with the plan's subsampling, colours and markers. `coarseness` multiplies the quantisation
// tables of Annex K of the JPEG standard: 0.1 is libjpeg's quality 95, 1 is its quality 50.
// Errors: kSystem (libjpeg's message).
[[nodiscard]] io::Result<std::vector<std::byte>> encode_jpeg(const Picture& picture, const ImagePlan& plan,
                                                             double coarseness);

// Like encode_jpeg(), with the coarseness whose result comes closest to plan.target_bytes.
[[nodiscard]] io::Result<std::vector<std::byte>> encode_jpeg_to_size(const Picture& picture, const ImagePlan& plan);

// Errors: kNotFound, kPermission, kSystem (opening); kCorrupt (no JPEG that libjpeg reads as RGB).
[[nodiscard]] io::Result<Picture> load_jpeg(const std::filesystem::path& file);

}  // namespace headrace::cli
