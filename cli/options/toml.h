// SPDX-License-Identifier: Apache-2.0
// Reads the part of TOML that a list of settings needs: names, texts, numbers, true and false, lists of these,
// comments.
//
//   Result<std::vector<Setting>> settings = parse_toml("ram = 16G  # of 64\nssd = ['/nvme:200G']\n");
//
// A value that TOML has no quotes for may stand without any (16G, 40%), because people leave them out there; it ends
// at a space, comma, # or bracket. There are no tables, dates or lists in lists.
//
// Thread-safety: any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headrace/io/result.h"

namespace headrace::cli {

struct Setting {
  std::string name;
  std::vector<std::string> values;
  bool is_list = false;
};

// Errors: kInvalidArgument, with the line, what is wrong with it and what would be right.
[[nodiscard]] io::Result<std::vector<Setting>> parse_toml(std::string_view text);

}  // namespace headrace::cli
