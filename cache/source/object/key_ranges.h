// SPDX-License-Identifier: Apache-2.0
// Where a folder of very many keys is cut, so that its parts can be listed at the same time.
//
//   for (KeyRange& part : split(range, names)) list(part);   // range is what is left in front of them
//
// Nobody knows the keys that have not been listed yet. But keys are numbers and hashes: where "img_00007999" was the
// last one, others begin with "img_00008", "img_0001" and so on. The characters at each place are guessed from names
// seen. A wrong guess costs one request that finds nothing; no guess can lose a key, because the parts touch.
//
// Pure function.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::cache {

// Keys of one folder behind `after` and up to `until`, both whole keys.
struct KeyRange {
  std::string folder = {};
  std::string after = {};  // not in it; empty: the beginning
  std::string until = {};  // in it; empty: the end
  std::string token = {};  // where the next page begins; empty: the first
  std::string first = {};  // of the first page
  std::string last = {};   // of the pages so far
  unsigned pages = 0;
  unsigned empty_pages = 0;  // in a row
};

// Cuts what is left behind range.last. The range keeps the first part, and goes on with its token. No part: there is
// no place to cut.
[[nodiscard]] std::vector<KeyRange> split(KeyRange& range, std::span<const std::string_view> names);

}  // namespace headrace::cache
