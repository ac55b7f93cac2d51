// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <pwd.h>

#include "headrace/cli/doctor/doctor.h"

#include "process.h"

namespace doctor_fusermount_test {

using headrace::cli::examine_fusermount;
using headrace::cli::Finding;
using headrace::cli::Health;

TEST_CASE("a user without a name is told that fusermount3 mounts for none, with the line to add") {
  constexpr uid_t kNobody = 65534;
  constexpr uid_t kNameless = 1'234'567;
  REQUIRE(::getpwuid(kNameless) == nullptr);
  if (examine_fusermount(kNobody).health != Health::kGood) headrace::test::skip("needs fusermount3, set-uid root");
  const Finding finding = examine_fusermount(kNameless);
  CHECK(finding.health == Health::kMissing);
  CHECK(finding.text.ends_with("fusermount3 mounts for no user without a name, and user 1234567 has none"));
  CHECK(finding.remedy == "echo 'headrace:x:1234567:1234567::/:/usr/sbin/nologin' >> /etc/passwd (as root)");
  CHECK(examine_fusermount(0).health == Health::kGood);
}

}  // namespace doctor_fusermount_test
