// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <optional>

#include <doctest/doctest.h>
#include <unistd.h>

#include "headrace/cache/order/parameters.h"
#include "headrace/cache/order_families.h"

#include "cache/order/golden.h"
#include "support/temp_dir.h"

namespace spec_test {

using namespace headrace::cache;
using namespace headrace::test;

namespace {

bool mentions(const std::string& message, std::string_view part) {
  INFO(message);
  return message.find(part) != std::string::npos;
}

// The most bytes of the process that were in memory since reset_peak(); nullopt: the kernel does not tell.
std::optional<std::uint64_t> peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  return std::nullopt;
}

bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
}

}  // namespace

TEST_CASE("order specs: what is wrong is named together with what is allowed") {
  CHECK(mentions(refusal_of("torch-distribted"), "no order family 'torch-distribted'; known: sequential"));
  CHECK(mentions(refusal_of(""), "no order family ''"));
  CHECK(mentions(refusal_of("sequential:seed=1"), "no parameter 'seed'; allowed: replicas, rank"));
  CHECK(mentions(refusal_of("torch-distributed:replicas=0"), "replicas='0' is not allowed: an integer from 1"));
  CHECK(mentions(refusal_of("torch-distributed:replicas=2,rank=2"), "rank='2' is not allowed: an integer from 0 to 1"));
  CHECK(mentions(refusal_of("torch-distributed:replicas=4,rank=2-1"), "or FIRST-LAST"));
  CHECK(mentions(refusal_of("torch-distributed:seed=abc"), "seed='abc'"));
  CHECK(mentions(refusal_of("ffcv:order=quasi_random"), "needs page_sizes=PATH"));
  CHECK(mentions(refusal_of("torch-distributed:seed=1,seed=2"), "'seed' is given twice"));
  CHECK(mentions(refusal_of("torch-distributed:seed"), "'seed' is not NAME=VALUE"));
  CHECK(mentions(refusal_of("torch-distributed:seed=1,,rank=0"), "'' is not NAME=VALUE"));
  CHECK(mentions(refusal_of("torch-distributed:drop_last=yes"), "drop_last='yes'"));
  CHECK(mentions(refusal_of("torch-distributed:torch=two"), "torch=two is not allowed"));
  CHECK(mentions(refusal_of("sequential", (std::uint64_t{1} << 32) + 1), "at most 2^32"));
}

TEST_CASE("order specs: the example of each family is one, and names parameters that the family takes") {
  for (const OrderFamily& family : order_families()) {
    constexpr std::string_view kOfFiles[] = {"file", "recorded", "streaming", "torch-weighted", "litdata", "megatron"};
    if (std::ranges::find(kOfFiles, family.name) != std::end(kOfFiles)) continue;  // no such file or folder
    CAPTURE(family.name);
    CHECK(refusal_of(std::string(family.example), 1000) == "");
    CHECK(family.example.starts_with(family.name));
    CHECK(std::ranges::find(family.parameters, "no_such_parameter") == family.parameters.end());
    CHECK_FALSE(family.parameters.empty());
  }
}

TEST_CASE("orders of 10 million samples take 8 bytes per sample at most while they are drawn") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  MESSAGE("skipped: a sanitizer's own memory counts, too");
  return;
#endif
  constexpr std::uint64_t kN = 10'000'000;
  constexpr std::uint64_t kElsewhere = 8 << 20;  // what else the process may take meanwhile
  for (const char* spec : {"torch-distributed:replicas=8", "torch-distributed:replicas=8,rank=3", "numpy:seed=1"}) {
    CAPTURE(spec);
    const auto order = order_of(spec, kN);
    if (!reset_peak()) {
      MESSAGE("skipped: /proc/self/clear_refs cannot be written");
      return;
    }
    const std::optional<std::uint64_t> before = peak_bytes();
    REQUIRE(before.has_value());
    REQUIRE(order->epoch(0).has_value());
    CHECK(*peak_bytes() - *before <= 8 * kN + kElsewhere);
  }
}

TEST_CASE("order specs: the worker layout is read") {
  const WorkerLayout layout = order_of("torch-distributed:batch=64,workers=6,prefetch_factor=3", 10)->workers();
  CHECK(layout.batch == 64);
  CHECK(layout.workers == 6);
  CHECK(layout.prefetch_factor == 3);
  CHECK(order_of("sequential", 10)->workers().workers == 0);
}

TEST_CASE("order specs: an empty data set has empty epochs") {
  for (const char* spec : {"sequential", "torch-distributed:replicas=4", "torch-distributed:replicas=4,rank=1"}) {
    CHECK(epoch_of(spec, 0, 3).empty());
    CHECK(order_of(spec, 0)->length(0) == 0);
  }
}

TEST_CASE("seeds: any integer up to 128 bits, as Python sees it") {
  CHECK(Seed::parse("-1")->low64() == UINT64_MAX);
  CHECK(Seed::parse("-1")->words() == std::vector<std::uint32_t>{1});
  CHECK(Seed::parse("18446744073709551621")->words() == std::vector<std::uint32_t>{5, 0, 1});
  CHECK(Seed::parse("0")->words() == std::vector<std::uint32_t>{0});
  CHECK(Seed::parse("-3")->plus(5).low64() == 2);
  CHECK(Seed::parse("-5")->plus(3).low64() == UINT64_MAX - 1);
  CHECK(Seed::parse("340282366920938463463374607431768211455").has_value());
  CHECK_FALSE(Seed::parse("340282366920938463463374607431768211456").has_value());
  CHECK_FALSE(Seed::parse("").has_value());
  CHECK_FALSE(Seed::parse("-").has_value());
  CHECK_FALSE(Seed::parse("1e3").has_value());
}

TEST_CASE("order files: indices, with a byte order mark, CR LF, empty lines and no last newline") {
  const TempDir dir;
  const auto file = dir.write("order",
                              "\xef\xbb\xbf"
                              "3\r\n0\r\n\n2");
  CHECK(epoch_of("file:" + file.string(), 4, 5) == std::vector<SampleIndex>{3, 0, 2});
  CHECK(order_of("file:" + file.string(), 4)->prefix(0, 2)->size() == 2);
}

TEST_CASE("order files: paths are looked up, a bad line is named with its number") {
  const TempDir dir;
  const OrderInput input{.sample_count = 3, .find_sample = [](std::string_view path) -> std::optional<SampleIndex> {
                           return path == "a/1.jpg" ? std::optional<SampleIndex>(2) : std::nullopt;
                         }};
  const auto good = make_order("file:" + dir.write("good", "a/1.jpg\na/1.jpg\n").string(), input);
  REQUIRE(good);
  CHECK(*(*good)->epoch(0) == std::vector<SampleIndex>{2, 2});
  const auto bad = make_order("file:" + dir.write("bad", "a/1.jpg\n\n7\n").string(), input);
  REQUIRE_FALSE(bad);
  CHECK(bad.error().code == headrace::io::ErrorCode::kNotFound);
  CHECK(mentions(bad.error().message(), "line 3: '7' is no sample"));
}

TEST_CASE(
    "order files: numbers are paths where a line is no number, a pipe is read as far as it need not be read twice") {
  const TempDir dir;
  const OrderInput input{.sample_count = 3, .find_sample = [](std::string_view path) -> std::optional<SampleIndex> {
                           return static_cast<SampleIndex>(path.size() - 1);
                         }};
  const auto mixed = make_order("file:" + dir.write("mixed", "77\n1\nabc\n").string(), input);
  REQUIRE(mixed);
  CHECK(*(*mixed)->epoch(0) == std::vector<SampleIndex>{1, 0, 2});
  const auto through_pipe = [&](std::string_view content) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    REQUIRE(::write(ends[1], content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    ::close(ends[1]);
    auto order = make_order("file:/dev/fd/" + std::to_string(ends[0]), input);
    ::close(ends[0]);
    return order;
  };
  CHECK(*(*through_pipe("2\n0\n"))->epoch(0) == std::vector<SampleIndex>{2, 0});
  CHECK(*(*through_pipe("abc\na\n"))->epoch(0) == std::vector<SampleIndex>{2, 0});
  const auto twice = through_pipe("77\nabc\n");
  REQUIRE_FALSE(twice);
  CHECK(mentions(twice.error().message(), "from its start again"));
}

TEST_CASE("order files: an index beyond the data set, a missing file and a folder are refused") {
  const TempDir dir;
  CHECK(mentions(refusal_of("file:" + dir.write("far", "1\n10\n").string()), "line 2: '10' is not an index"));
  CHECK(mentions(refusal_of("file:" + dir.write("huge", "99999999999999999999999\n").string()), "line 1"));
  CHECK(mentions(refusal_of("file:/nonexistent/order"), "open order file /nonexistent/order"));
  CHECK(mentions(refusal_of("file:" + dir.path().string()), "read order file"));
  CHECK(mentions(refusal_of("file:"), "needs a path"));
}

}  // namespace spec_test
