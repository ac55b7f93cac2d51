// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "headrace/cli/doctor/doctor.h"

namespace doctor_crops_test {

using headrace::cli::examine_crops;
using headrace::cli::Finding;
using headrace::cli::Health;
using headrace::decode::IndexSupport;

TEST_CASE("a libjpeg with which crops take the plain path is told, and why") {
  CHECK(examine_crops(IndexSupport::kWorks, "2.1.5").health == Health::kGood);
  const Finding unknown = examine_crops(IndexSupport::kUnknownLibrary, "3.0.1");
  CHECK(unknown.health == Health::kLimit);
  CHECK(unknown.text.find("libjpeg-turbo 3.0.1 is not known") == 0);
  CHECK_FALSE(unknown.remedy.empty());
  CHECK(examine_crops(IndexSupport::kUnknownLibrary, "").text.find("this libjpeg is not known") == 0);
  CHECK(examine_crops(IndexSupport::kFailedCheck, "2.1.5").text.find("failed the check") != std::string::npos);
  CHECK(examine_crops(IndexSupport::kFailedCheck, "2.1.5").health == Health::kLimit);
}

}  // namespace doctor_crops_test
