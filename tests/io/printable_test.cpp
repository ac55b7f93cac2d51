// SPDX-License-Identifier: Apache-2.0
#include "headrace/io/printable.h"

#include <string>

#include <doctest/doctest.h>

namespace printable_test {

using headrace::io::printable;

TEST_CASE("text without control characters stays as it is") {
  CHECK(printable("").empty());
  CHECK(printable("/data/a photo.jpg") == "/data/a photo.jpg");
  CHECK(printable("C:\\x") == "C:\\x");
  CHECK(printable("mañana/写真/😀") == "mañana/写真/😀");
}

TEST_CASE("control characters are written out, those of one byte and those of two") {
  CHECK(printable("a\nb\tc\rd") == "a\\nb\\tc\\rd");
  CHECK(printable(std::string("\x1b[2Jx\x7f\0", 7)) == "\\x1b[2Jx\\x7f\\x00");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\xc2\\x9b31m");  // U+009B, which terminals take for escape and bracket
}

TEST_CASE("bytes that are no UTF-8 are written out") {
  CHECK(printable("a\xff"
                  "b") == "a\\xffb");
  CHECK(printable("\xe5\x86") == "\\xe5\\x86");  // cut off
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");  // longer than needed
  CHECK(printable("\x9b"
                  "31m") == "\\x9b31m");
}

}  // namespace printable_test
