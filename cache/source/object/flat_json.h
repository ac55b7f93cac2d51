// SPDX-License-Identifier: Apache-2.0
// The strings of one JSON object, as services that give keys answer. A library would leave copies of the secrets all
// over the heap; here each value goes into one string, which is overwritten.
//
//   if (!read_flat_json(body, [&](std::string_view name, std::string& value) { ... })) fail();
//
// Pure function. False: not an object, or cut off. What is nested is passed over.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace headrace::cache {

[[nodiscard]] bool read_flat_json(std::string_view text,
                                  const std::function<void(std::string_view name, std::string& value)>& on_value);

}  // namespace headrace::cache
