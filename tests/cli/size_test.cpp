// SPDX-License-Identifier: Apache-2.0
#include "headrace/cli/setup/size.h"

#include <doctest/doctest.h>

#include "headrace/cli/show/figures.h"

namespace size_test {

using headrace::cli::format_count;
using headrace::cli::format_duration;
using headrace::cli::format_size;
using headrace::cli::parse_size;

TEST_CASE("sizes take units of 1024 in any of their spellings") {
  CHECK(parse_size("0").value() == 0);
  CHECK(parse_size("4096").value() == 4096);
  CHECK(parse_size("4096B").value() == 4096);
  CHECK(parse_size("64K").value() == 64 << 10);
  CHECK(parse_size("64 KiB").value() == 64 << 10);
  CHECK(parse_size("64kb").value() == 64 << 10);
  CHECK(parse_size("1.5M").value() == 3 << 19);
  CHECK(parse_size("16G").value() == std::uint64_t{16} << 30);
  CHECK(parse_size("2T").value() == std::uint64_t{2} << 40);
}

TEST_CASE("a small number without a unit is refused, because nobody means bytes") {
  for (const char* text : {"16", " 512 ", "1.5", "1023"}) {
    CAPTURE(text);
    const auto parsed = parse_size(text, 1000);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().context.find("G?") != std::string::npos);
  }
  CHECK(parse_size("16").error().context == "'16' would be 16 bytes; did you mean 16G?");
  CHECK(parse_size("16B").value() == 16);
  CHECK(parse_size("0").value() == 0);
  CHECK(parse_size("1024").value() == 1024);
}

TEST_CASE("a percentage needs something to be a part of") {
  CHECK(parse_size("25%", 1000).value() == 250);
  CHECK(parse_size("12.5 %", 1000).value() == 125);
  CHECK(parse_size("100%", 1000).value() == 1000);
  CHECK_FALSE(parse_size("101%", 1000));
  CHECK_FALSE(parse_size("25%"));
}

TEST_CASE("sizes that make no sense are refused with a sentence that names them") {
  for (const char* text : {"", " ", "G", "-1G", "1X", "1GG", "1 2", "0x10", "nan", "inf", "1e9", "12iB", "10,5G",
                           "8388608T", "99999999999999999999", "1G;rm", "%"}) {
    CAPTURE(text);
    const auto parsed = parse_size(text, 1000);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == headrace::io::ErrorCode::kInvalidArgument);
    CHECK(parsed.error().context.find(text) != std::string::npos);
  }
}

TEST_CASE("sizes are shown in nine characters at most") {
  CHECK(format_size(0) == "0 B");
  CHECK(format_size(1023) == "1023 B");
  CHECK(format_size(1024) == "1.0 KiB");
  CHECK(format_size(1536 * 1024) == "1.5 MiB");
  CHECK(format_size((std::uint64_t{1} << 20) - 1) == "1.0 MiB");
  CHECK(format_size(std::uint64_t{312} << 30) == "312 GiB");
  for (std::uint64_t bytes = 1; bytes != 0; bytes <<= 1) {
    CAPTURE(bytes);
    CHECK(format_size(bytes - 1).size() <= 9);
  }
}

TEST_CASE("counts and durations are shown short") {
  CHECK(format_count(9999) == "9999");
  CHECK(format_count(51'234) == "51.2k");
  CHECK(format_count(1'281'167) == "1.28M");
  CHECK(format_count(UINT64_MAX) == "18.4E");
  CHECK(format_duration(7.4) == "0:07");
  CHECK(format_duration(750) == "12:30");
  CHECK(format_duration(11100) == "3:05:00");
  CHECK(format_duration(1e300) == "99:59:59");
  CHECK(format_duration(-1) == "0:00");
}

}  // namespace size_test
