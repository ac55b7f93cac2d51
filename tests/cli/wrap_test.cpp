// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/show/wrap.h"

#include <doctest/doctest.h>

namespace wrap_test {

using headrace::cli::wrap;

TEST_CASE("text is broken between words, and the next lines are indented") {
  CHECK(wrap("one two three", {.columns = 7}) == "one two\nthree");
  CHECK(wrap("one two three", {.columns = 9, .indent = 4}) == "one\n    two\n    three");
  CHECK(wrap("one two three", {.columns = 0, .indent = 4}) == "one two three");
}

TEST_CASE("a word longer than a line has one of its own") {
  CHECK(wrap("a considerable b", {.columns = 5}) == "a\nconsiderable\nb");
  CHECK(wrap("considerable", {.columns = 5, .indent = 2}) == "considerable");
  CHECK(wrap(" \n ", {}).empty());
}

}  // namespace wrap_test
