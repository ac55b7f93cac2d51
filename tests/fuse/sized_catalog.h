// SPDX-License-Identifier: Apache-2.0
// A catalog of samples of given sizes, which lives for one test case.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "headrace/cache/catalog.h"

#include "support/temp_dir.h"

namespace headrace::fuse::test {

class SizedCatalog {
 public:
  explicit SizedCatalog(const std::vector<std::size_t>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::filesystem::resize_file(dir_.write("a/" + std::to_string(100 + i) + ".jpg", ""), sizes[i]);  // sparse
    }
    auto scanned = cache::Catalog::scan(dir_.path(), {});
    REQUIRE_MESSAGE(scanned.has_value(), scanned.error().message());
    catalog_.emplace(std::move(*scanned));
  }
  [[nodiscard]] const cache::Catalog& operator*() const { return *catalog_; }

 private:
  headrace::test::TempDir dir_;
  std::optional<cache::Catalog> catalog_;
};

}  // namespace headrace::fuse::test
