// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/renumbered_order.h"

#include <filesystem>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "support/temp_dir.h"

namespace headrace::cache::renumbered_order_test {
namespace {

using Samples = std::vector<SampleIndex>;

TEST_CASE("an order over the samples before names the same files in the numbers that they have now") {
  const test::TempDir source;
  for (const char* name : {"a/1.jpg", "a/2.jpg", "b/1.jpg"}) source.write(name, "x");
  const Catalog before = *Catalog::scan(source.path(), {});
  source.write("a/0.jpg", "x");
  source.write("a/3.jpg", "x");
  const Catalog now = *Catalog::scan(source.path(), {});
  const Samples numbers = new_numbers(before, now);
  CHECK(numbers == Samples{1, 2, 4});
  const std::shared_ptr<const Order> order = std::move(*make_order("torch-random:seed=0", {.sample_count = 3}));
  const auto renumbered = renumber_order(order, numbers);
  CHECK(renumbered->spec() == order->spec());
  CHECK(renumbered->length(0) == 3);
  for (const std::uint64_t epoch : {0U, 5U}) {
    Samples expected = *order->epoch(epoch);
    for (SampleIndex& sample : expected) sample = numbers[sample];
    CHECK(*renumbered->epoch(epoch) == expected);
    expected.resize(2);
    CHECK(*renumbered->prefix(epoch, 2) == expected);
  }
  std::filesystem::remove(source.path() / "b/1.jpg");
  CHECK(new_numbers(before, *Catalog::scan(source.path(), {})).empty());
}

}  // namespace
}  // namespace headrace::cache::renumbered_order_test
