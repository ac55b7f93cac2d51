// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/keep/placement.h"

#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "headrace/cache/catalog.h"
#include "headrace/cache/order.h"

#include "support/temp_dir.h"

namespace placement_test {
namespace {

using headrace::cache::Catalog;
using headrace::cache::make_order;
using headrace::cache::Placement;
using headrace::cache::SampleIndex;
using headrace::test::TempDir;

TEST_CASE("files of more than 4 GiB count in full when MIN chooses what a tier holds") {
  constexpr std::uint64_t kGiB = 1 << 30;
  constexpr SampleIndex kFiles = 4;
  const TempDir source;
  for (SampleIndex i = 0; i < kFiles; ++i) {
    const std::string name = "class/" + std::to_string(i) + ".jpg";
    source.write(name, "");
    std::filesystem::resize_file(source.path() / name, 100 * kGiB);
  }
  const auto catalog = Catalog::scan(source.path(), {});
  REQUIRE(catalog.has_value());
  REQUIRE(catalog->sample_count() == kFiles);
  const auto order = make_order("torch-random:seed=1", {.sample_count = kFiles});
  REQUIRE(order.has_value());
  const std::uint64_t room = 250 * kGiB;  // two of them
  Placement placement(*catalog, {room}, [](auto, auto) { return false; });
  static_cast<void>(placement.follow(**order, 0));
  static_cast<void>(placement.follow(**order, 0));  // two orders at once: MIN
  REQUIRE(placement.evicts());
  for (SampleIndex i = 0; i < kFiles; ++i) static_cast<void>(placement.on_read(i));
  int wanted = 0;
  for (SampleIndex i = 0; i < kFiles; ++i) wanted += placement.wants(0, i) ? 1 : 0;
  CHECK(wanted == 2);
}

}  // namespace

}  // namespace placement_test
