// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/peer_list.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/temp_dir.h"

namespace peer_list_test {

using headrace::cli::expand_host_list;
using headrace::cli::list_peers;
using headrace::io::ErrorCode;
using headrace::test::TempDir;
using Names = std::vector<std::string>;

TEST_CASE("a host list of Slurm is expanded as scontrol does") {
  CHECK(*expand_host_list("n1") == Names{"n1"});
  CHECK(*expand_host_list("n[1-3]") == Names{"n1", "n2", "n3"});
  CHECK(*expand_host_list("n[08-10,7],login") == Names{"n08", "n09", "n10", "n7", "login"});
  CHECK(*expand_host_list("r[1-2]n[1-2]-ib") == Names{"r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"});
}

TEST_CASE("a host list that is none is refused, and one that is too long") {
  for (const char* bad : {"", ",", "n1,", "n[1", "n[1-]", "n[]", "n[3-1]", "n[a-b]", "n[1-99999]",
                          "n[0-99999999999999]", "a[1-100]b[1-100]", "n[-1]", "n[1--2]", "n[+1]"}) {
    CAPTURE(bad);
    const auto names = expand_host_list(bad);
    REQUIRE_FALSE(names.has_value());
    CHECK(names.error().code == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("peers come from the words, a file, a name or Slurm") {
  CHECK(*list_peers({"n1", "n2:5"}) == Names{"n1", "n2:5"});
  CHECK(*list_peers({"n1"}) == Names{"n1"});

  const TempDir dir;
  dir.write("peers", "# the nodes\nn1\n\n  n2:5 # with its port\r\n");
  CHECK(*list_peers({"file:" + (dir.path() / "peers").string()}) == Names{"n1", "n2:5"});
  CHECK(list_peers({"file:" + (dir.path() / "none").string()}).error().code == ErrorCode::kNotFound);
  CHECK(list_peers({"file:" + dir.path().string()}).error().code == ErrorCode::kNotFound);
  CHECK(list_peers({"file:/dev/zero"}).error().code == ErrorCode::kInvalidArgument);  // it has no end

  CHECK(*list_peers({"dns:127.0.0.1"}) == Names{"127.0.0.1"});
  CHECK(*list_peers({"dns:127.0.0.1:5"}) == Names{"127.0.0.1:5"});
  CHECK(list_peers({"dns:no-such-host.invalid"}).error().code == ErrorCode::kNotFound);

  ::unsetenv("SLURM_JOB_NODELIST");
  CHECK(list_peers({"slurm"}).error().code == ErrorCode::kInvalidArgument);
  ::setenv("SLURM_JOB_NODELIST", "gpu[1-2]", 1);
  CHECK(*list_peers({"slurm"}) == Names{"gpu1", "gpu2"});
  ::unsetenv("SLURM_JOB_NODELIST");
}

}  // namespace peer_list_test
