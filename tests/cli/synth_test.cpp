// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/synth/synth.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cli/synth/jpeg.h"
#include "headrace/cli/synth/plan.h"

#include "support/temp_dir.h"

namespace headrace::cli::synth_test {
namespace {

namespace fs = std::filesystem;

std::vector<double> sorted_sizes(const std::vector<ImagePlan>& plans) {
  std::vector<double> sizes;
  for (const ImagePlan& plan : plans) sizes.push_back(plan.target_bytes);
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  const double centre = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - centre) * (value - centre);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size()))];
}

template <typename Condition>
double share_of(const std::vector<ImagePlan>& plans, Condition condition) {
  return static_cast<double>(std::count_if(plans.begin(), plans.end(), condition)) / static_cast<double>(plans.size());
}

// Relative path to content, of every file below a folder.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> result;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    result[fs::relative(entry.path(), folder)] = std::string(std::istreambuf_iterator<char>(stream), {});
  }
  return result;
}

}  // namespace

TEST_CASE("synth plans the sizes of a photo data set") {
  const std::vector<double> sizes = sorted_sizes(plan_images(4000, 1));
  CHECK(mean(sizes) == doctest::Approx(108e3).epsilon(0.02));
  CHECK(deviation(sizes) == doctest::Approx(74e3).epsilon(0.03));
  CHECK(quantile(sizes, 0.10) == doctest::Approx(25e3).epsilon(0.02));
  CHECK(quantile(sizes, 0.50) == doctest::Approx(107e3).epsilon(0.02));
  CHECK(quantile(sizes, 0.90) == doctest::Approx(188e3).epsilon(0.02));
  CHECK(quantile(sizes, 0.99) == doctest::Approx(404e3).epsilon(0.02));
}

TEST_CASE("synth plans the shares of encodings and dimensions") {
  const std::vector<ImagePlan> plans = plan_images(4000, 1);
  const auto subsampled = [](Subsampling wanted) {
    return [=](const ImagePlan& plan) { return plan.subsampling == wanted; };
  };
  CHECK(share_of(plans, subsampled(Subsampling::k444)) == doctest::Approx(0.80));
  CHECK(share_of(plans, subsampled(Subsampling::k420)) == doctest::Approx(0.18));
  CHECK(share_of(plans, subsampled(Subsampling::k422)) == doctest::Approx(0.02));
  CHECK(share_of(plans, [](const ImagePlan& plan) { return plan.grayscale; }) == doctest::Approx(0.02));
  CHECK(share_of(plans, [](const ImagePlan& plan) { return plan.progressive; }) == doctest::Approx(0.01));
  CHECK(share_of(plans, [](const ImagePlan& plan) { return plan.restart_markers; }) == doctest::Approx(0.02));
  CHECK(share_of(plans, [](const ImagePlan& plan) { return plan.width * plan.height == 500 * 375; }) > 0.5);
  CHECK(share_of(plans, [](const ImagePlan& plan) { return plan.width == 68 && plan.height == 56; }) > 0);
  CHECK(share_of(plans, [](const ImagePlan& plan) { return plan.width == 2400 && plan.height == 1600; }) > 0);
}

TEST_CASE("synth writes files of the planned size and dimensions") {
  const test::TempDir dir;
  const auto report = synth_data_set({.dir = dir.path() / "set", .files = 40, .classes = 4, .seed = 5});
  REQUIRE(report);
  const std::vector<ImagePlan> plans = plan_images(40, 5);
  std::uint64_t planned_bytes = 0;
  std::uint64_t found_bytes = 0;
  for (std::uint32_t i = 0; i < plans.size(); ++i) {
    const std::string label = std::to_string(i % 4);
    const std::string number = std::to_string(i / 4);
    const fs::path file = dir.path() / "set" / ("n0000" + label) /
                          ("n0000" + label + "_" + std::string(6 - number.size(), '0') + number + ".jpg");
    REQUIRE(fs::exists(file));
    const auto picture = load_jpeg(file);
    REQUIRE(picture);
    CHECK(picture->width == plans[i].width);
    CHECK(picture->height == plans[i].height);
    planned_bytes += plans[i].target_bytes;
    found_bytes += fs::file_size(file);
  }
  CHECK(report->files == 40);
  CHECK(report->bytes == found_bytes);
  CHECK(static_cast<double>(found_bytes) == doctest::Approx(static_cast<double>(planned_bytes)).epsilon(0.03));
}

TEST_CASE("synth repeats itself for the same seed and differs for another") {
  const test::TempDir dir;
  REQUIRE(synth_data_set({.dir = dir.path() / "a", .files = 6, .classes = 2, .seed = 1}));
  REQUIRE(synth_data_set({.dir = dir.path() / "b", .files = 6, .classes = 2, .seed = 1}));
  REQUIRE(synth_data_set({.dir = dir.path() / "c", .files = 6, .classes = 2, .seed = 2}));
  const auto first = contents(dir.path() / "a");
  CHECK(first.size() == 6);
  CHECK(first == contents(dir.path() / "b"));
  CHECK(first != contents(dir.path() / "c"));
}

TEST_CASE("synth cuts samples out of photographs") {
  const test::TempDir dir;
  REQUIRE(synth_data_set({.dir = dir.path() / "photos", .files = 3, .classes = 1}));
  dir.write("photos/broken.jpg", "not a photograph");
  const auto report = synth_data_set(
      {.dir = dir.path() / "set", .files = 10, .classes = 2, .seed = 1, .from_folder = dir.path() / "photos"});
  REQUIRE(report);
  CHECK(contents(dir.path() / "set").size() == 10);
}

TEST_CASE("synth refuses what makes no data set") {
  const test::TempDir dir;
  dir.write("used/file", "x");
  dir.write("empty/note.txt", "x");
  CHECK(synth_data_set({.dir = dir.path() / "used"}).error().code == io::ErrorCode::kInvalidArgument);
  CHECK(synth_data_set({.dir = dir.path() / "new", .files = 0}).error().code == io::ErrorCode::kInvalidArgument);
  CHECK(synth_data_set({.dir = dir.path() / "new", .classes = 0}).error().code == io::ErrorCode::kInvalidArgument);
  CHECK(synth_data_set({.dir = dir.path() / "new", .from_folder = dir.path() / "empty"}).error().code ==
        io::ErrorCode::kInvalidArgument);
  CHECK(synth_data_set({.dir = dir.path() / "new", .from_folder = dir.path() / "missing"}).error().code ==
        io::ErrorCode::kNotFound);
  CHECK(synth_data_set({.dir = dir.path() / "used/file/below"}).error().os_errno == ENOTDIR);
}

}  // namespace headrace::cli::synth_test
