// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "headrace/cli/doctor/kernel.h"

namespace doctor_kernel_test {

using headrace::cli::examine_kernel;
using headrace::cli::Finding;
using headrace::cli::Health;

TEST_CASE("doctor says in one line what a kernel lacks") {
  const Finding newest = examine_kernel("6.18.2-arch1");
  CHECK(newest.health == Health::kGood);
  CHECK(newest.text == "6.18.2-arch1");
  const Finding ubuntu = examine_kernel("6.11.0-9-generic");
  CHECK(ubuntu.health == Health::kInfo);
  CHECK(ubuntu.text.find("within 4 ms") != std::string::npos);
  const Finding debian = examine_kernel("6.1.0-28-amd64");
  CHECK(debian.health == Health::kInfo);
  CHECK(debian.text.starts_with("6.1.0-28-amd64: what the page cache has of the source"));
  CHECK(debian.text.find("interrupts") == std::string::npos);
  const Finding old = examine_kernel("5.15.0-91-generic");
  CHECK(old.text.find("interrupts") != std::string::npos);
  CHECK(old.text.find("not tested") == std::string::npos);
  for (const char* strange : {"5.10.0", "", "six", "6", "6.", ".9"}) {
    CAPTURE(strange);
    CHECK(examine_kernel(strange).text.find("not tested") != std::string::npos);
  }
}

TEST_CASE("the table of kernels in the README names the versions that doctor knows") {
  std::ostringstream readme;
  readme << std::ifstream(HEADRACE_SOURCE "/README.md").rdbuf();
  for (const char* version : {"6.1", "6.5", "6.13"}) {
    CAPTURE(version);
    CHECK(readme.str().find("\n| " + std::string(version) + " |") != std::string::npos);
  }
}

}  // namespace doctor_kernel_test
