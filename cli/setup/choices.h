// SPDX-License-Identifier: Apache-2.0
// Options that take one of a few names.
//
//   constexpr Choice<Kind> kKinds[] = {{"auto", Kind::kAutomatic}, {"uring", Kind::kUring}};
//   HEADRACE_TRY(kind, choose("--engine", arguments.engine, kKinds));
//
// Thread-safety: pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "headrace/io/result.h"

namespace headrace::cli {

template <typename Value>
struct Choice {
  std::string_view name;
  Value value;
};

// Errors: kInvalidArgument; the sentence lists the names that are known.
template <typename Value, std::size_t kCount>
[[nodiscard]] io::Result<Value> choose(std::string_view option, std::string_view name,
                                       const Choice<Value> (&choices)[kCount]) {
  std::string known;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (choices[i].name == name) return choices[i].value;
    known += i == 0 ? "" : i + 1 == kCount ? " and " : ", ";
    known += choices[i].name;
  }
  return io::make_error(io::ErrorCode::kInvalidArgument,
                        fmt::format("{} '{}' is unknown; {} are known", option, name, known));
}

}  // namespace headrace::cli
