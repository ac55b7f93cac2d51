// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/result.h"

#include <cerrno>

#include <doctest/doctest.h>

namespace result_test {

using namespace headrace::io;

TEST_CASE("an error says what failed and why, on one line") {
  CHECK(Error{ErrorCode::kNotFound, ENOENT, "open /data/a.jpg"}.message() ==
        "open /data/a.jpg: No such file or directory");
  CHECK(Error{ErrorCode::kShortRead, 0, "read b"}.message() == "read b: file ended early");
}

TEST_CASE("an error shown to a system-call caller is never zero") {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kBusy); ++code) {
    CHECK(errno_from_error(Error{static_cast<ErrorCode>(code), 0, ""}) > 0);
  }
  CHECK(errno_from_error(Error{ErrorCode::kSystem, EMFILE, ""}) == EMFILE);
}

}  // namespace result_test
