// SPDX-License-Identifier: Apache-2.0
// What `headrace order --check` proposes where the order is another one.
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "process.h"
#include "support/temp_dir.h"

namespace order_check_test {

using headrace::test::contains;
using headrace::test::TempDir;
using headrace::test::Tool;

TEST_CASE("order --check names the listing where folders are read one after the other, and its part where one is") {
  const Tool tool;
  const TempDir data;
  const TempDir lists;
  for (int i = 0; i < 400; ++i) data.write(fmt::format("{}/{:03}.jpg", i < 200 ? "a" : "b", i), "");
  const std::string source = data.path().string();
  const auto proposal = [&](const std::string& opens) {
    const std::string list = lists.write("opens", opens).string();
    return tool({"order", source, "--order", "torch-distributed:seed=0", "--check", list}).errors;
  };
  const std::string all = tool({"order", source, "--order", "sequential"}).output;
  const std::string first_folder = all.substr(0, all.find("b/"));
  CHECK(contains(proposal(all), "what fits is sequential"));
  CHECK(contains(proposal(first_folder), "what fits is torch-subset:range=0:200,of=sequential"));
}

}  // namespace order_check_test
