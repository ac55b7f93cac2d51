// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/synth/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace headrace::cli {
namespace {

struct Quantile {
  double share;
  double bytes;
};

// Sizes of a large photo data set: mean 108 kB, median 107 kB, p10 25 kB, p90 188 kB, p99 404 kB, deviation 74 kB.
// The other points are fitted to the mean and the deviation.
constexpr std::array<Quantile, 12> kSizes = {{{0.00, 3e3},
                                              {0.01, 7e3},
                                              {0.10, 25e3},
                                              {0.25, 64e3},
                                              {0.50, 107e3},
                                              {0.75, 125e3},
                                              {0.90, 188e3},
                                              {0.95, 211e3},
                                              {0.97, 243e3},
                                              {0.99, 404e3},
                                              {0.999, 590e3},
                                              {1.00, 800e3}}};

constexpr double kShare420 = 0.18;
constexpr double kShare422 = 0.02;
constexpr double kShareGrayscale = 0.02;
constexpr double kShareProgressive = 0.01;
constexpr double kShareRestart = 0.02;

std::uint32_t size_at(double share) {
  const auto upper = std::upper_bound(kSizes.begin() + 1, kSizes.end() - 1, share,
                                      [](double value, const Quantile& quantile) { return value < quantile.share; });
  const Quantile& high = *upper;
  const Quantile& low = *(upper - 1);
  const double position = (share - low.share) / (high.share - low.share);
  return static_cast<std::uint32_t>(low.bytes + position * (high.bytes - low.bytes));
}

// Gives each file a place in [0, 1) for one attribute. Each place is taken once, in random order.
std::vector<double> places(std::uint32_t files, SplitMix& random) {
  std::vector<std::uint32_t> ranks(files);
  std::iota(ranks.begin(), ranks.end(), 0U);
  for (std::uint32_t i = files; i > 1; --i) std::swap(ranks[i - 1], ranks[random.below(i)]);
  std::vector<double> result(files);
  std::transform(ranks.begin(), ranks.end(), result.begin(), [&](std::uint32_t rank) { return (rank + 0.5) / files; });
  return result;
}

void set_dimensions(ImagePlan& plan, SplitMix& random) {
  const bool usual_size = plan.target_bytes > 20'000 && plan.target_bytes < 150'000;
  std::uint32_t width = 500;
  std::uint32_t height = 375;
  if (!usual_size || random.unit() > 0.9) {
    // Photographs of good quality take 2.5 to 5.5 bits per pixel.
    const double area = plan.target_bytes * 8.0 / random.between(2.5, 5.5);
    const double aspect = random.unit() < 0.6 ? 4.0 / 3 : random.between(1.0, 1.8);
    height = std::clamp(static_cast<std::uint32_t>(std::sqrt(area / aspect)), 56U, 1600U);
    width = std::clamp(static_cast<std::uint32_t>(height * aspect), 68U, 2400U);
  }
  if (random.unit() < 0.25) std::swap(width, height);
  plan.width = width;
  plan.height = height;
}

// Even a few files show the whole range of dimensions.
void pin_extremes(std::vector<ImagePlan>& plans) {
  const auto by_size = [](const ImagePlan& a, const ImagePlan& b) { return a.target_bytes < b.target_bytes; };
  const auto [smallest, largest] = std::minmax_element(plans.begin(), plans.end(), by_size);
  smallest->width = 68;
  smallest->height = 56;
  if (largest == smallest) return;
  largest->width = 2400;
  largest->height = 1600;
}

}  // namespace

std::vector<ImagePlan> plan_images(std::uint32_t files, std::uint64_t seed) {
  SplitMix random(seed);
  const std::vector<double> size = places(files, random);
  const std::vector<double> subsampling = places(files, random);
  const std::vector<double> grayscale = places(files, random);
  const std::vector<double> progressive = places(files, random);
  const std::vector<double> restart = places(files, random);
  std::vector<ImagePlan> plans(files);
  for (std::uint32_t i = 0; i < files; ++i) {
    ImagePlan& plan = plans[i];
    plan.target_bytes = size_at(size[i]);
    plan.subsampling = subsampling[i] < kShare420               ? Subsampling::k420
                       : subsampling[i] < kShare420 + kShare422 ? Subsampling::k422
                                                                : Subsampling::k444;
    plan.grayscale = grayscale[i] < kShareGrayscale;
    plan.progressive = progressive[i] < kShareProgressive;
    plan.restart_markers = restart[i] < kShareRestart;
    set_dimensions(plan, random);
  }
  if (!plans.empty()) pin_extremes(plans);
  return plans;
}

}  // namespace headrace::cli
