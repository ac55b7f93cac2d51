// SPDX-License-Identifier: Apache-2.0
// JSON as the commands and the daemon use it: members are read without exceptions, documents are printed for people.
//
//   fmt::print("{} samples, order {}\n", number_of(reply, "samples"), text_of(reply, "order"));
//   print_json(reply);
//
// A member that is missing or of another type counts as 0, "" or false: a request may come from anybody, and an answer
// from a daemon of another version.
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace headrace::cli {

[[nodiscard]] std::uint64_t number_of(const nlohmann::json& object, const char* name);
[[nodiscard]] double real_of(const nlohmann::json& object, const char* name);
[[nodiscard]] std::string text_of(const nlohmann::json& object, const char* name);
[[nodiscard]] bool flag_of(const nlohmann::json& object, const char* name);
// An empty object when it is missing.
[[nodiscard]] const nlohmann::json& member_of(const nlohmann::json& object, const char* name);

// On stdout, indented; bytes that are no UTF-8 are replaced.
void print_json(const nlohmann::json& value);

}  // namespace headrace::cli
